// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/memory_budget.h"
#include "server/http/peer_watch.h"
#include "server/http/waker.h"
#include "server/http/wire.h"
#include "server/openai/answer.h"
#include "server/openai/answer_channel.h"
#include "server/openai/service.h"
#include "server/responder.h"

namespace slip {

// Delivers one generated answer to its client: complete when finished, or as server-sent events while it is generated.
// If the client leaves or delivery fails, cancels the rest in the engine.
//
// One object per answer, on the connection's I/O thread except for the sinks. Shared with the sink maker and with the
// coroutine that watches the client, which may outlive the answer by a second. Tested in tests/server/session_test.cpp.
class AnswerDelivery : public std::enable_shared_from_this<AnswerDelivery> {
 public:
  using Next = Responder::Next;

  // `wire` and the objects behind `responder` must live until run() has ended and released its `connection`.
  AnswerDelivery(Wire& wire, Responder& responder, Service& service);

  // Creates the sinks of the answer's choices. The returned maker may be called on another thread, before run().
  SinkMaker sink_maker();
  PeerWatch& peer() { return peer_; }

  // Delivers the answer that arrives at the sinks. `connection` keeps the wire alive for the watching coroutine.
  // Errors: std::bad_alloc and Asio's exceptions, after cancelling the answer.
  boost::asio::awaitable<Next> run(AnswerIdentity who, std::shared_ptr<void> connection);

 private:
  // The next output of a stream.
  struct StreamOutput {
    std::string bytes;               // empty: nothing came
    std::optional<Reply> refusal;    // of a stream that fails before it has begun
    MemoryBudget::Reservation room;  // held until the bytes are written
  };

  boost::asio::awaitable<Next> deliver_or_cancel(std::shared_ptr<void> connection);
  boost::asio::awaitable<Next> deliver(std::shared_ptr<void> connection);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<Next> collect();
  boost::asio::awaitable<Next> stream();
  StreamOutput take_output();
  boost::asio::awaitable<bool> send_heartbeat();
  boost::asio::awaitable<bool> probe();
  boost::asio::awaitable<void> say_exhausted();
  boost::asio::awaitable<Next> give_up(const Error& why);
  bool takes_room_of_small(std::size_t bytes_before) const;
  std::string stream_opening();
  std::string text_of_exhaustion() const;
  void log_answers() const;
  void on_client_gone();
  const ServerOptions& options() const { return service_.options(); }

  Responder& responder_;
  Service& service_;
  const boost::asio::any_io_executor executor_;
  const std::shared_ptr<Waker> waker_;
  PeerWatch peer_;
  AnswerIdentity who_;
  std::vector<std::shared_ptr<AnswerChannel>> channels_;  // one per choice, as in `who_`
  std::vector<Choice> choices_;
  MemoryBudget::Reservation room_;  // of the output in `choices_`
  std::string exhausted_text_;      // tells the client of a stream that memory ran out; made while there is memory
  bool head_sent_ = false;
  bool broken_ = false;  // the client was told that the stream ends in error
};

}  // namespace slip
