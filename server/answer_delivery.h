// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
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

// Gives one generated answer to its client: whole when it is finished, or as server-sent events while it is made. When
// the client leaves, or the answer cannot be given, it cancels what the engine still has of it.
//
// One object an answer. On the connection's I/O thread, but for the sinks. Shared with the sinks' maker and with the
// coroutine that watches the client, which may outlive the answer by a second. Tested in tests/server/session_test.cpp.
class AnswerDelivery : public std::enable_shared_from_this<AnswerDelivery> {
 public:
  using Next = Responder::Next;

  // `wire` and what `responder` refers to must live until run() has ended and its `connection` is released.
  AnswerDelivery(Wire& wire, Responder& responder, Service& service);

  // Makes the sinks that the answer's choices arrive at. The maker may be called on another thread, before run().
  SinkMaker sink_maker();
  PeerWatch& peer() { return peer_; }

  // Delivers the answer that arrives at the sinks. `connection` keeps the wire alive for the watching coroutine.
  // Errors: std::bad_alloc and what Asio throws, after the answer was cancelled.
  boost::asio::awaitable<Next> run(AnswerIdentity who, std::shared_ptr<void> connection);

 private:
  boost::asio::awaitable<Next> deliver(std::shared_ptr<void> connection);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<Next> collect();
  boost::asio::awaitable<Next> stream();
  boost::asio::awaitable<bool> send_what_came();
  boost::asio::awaitable<bool> send_heartbeat();
  boost::asio::awaitable<bool> probe();
  boost::asio::awaitable<Next> give_up(const Error& why);
  std::string stream_opening();
  void log_answers() const;
  void on_client_gone();
  const ServerOptions& options() const { return service_.options(); }

  Responder& responder_;
  Service& service_;
  const boost::asio::any_io_executor executor_;
  const std::shared_ptr<Waker> waker_;
  PeerWatch peer_;
  AnswerIdentity who_;
  std::vector<std::shared_ptr<AnswerChannel>> channels_;  // one a choice, as in `who_`
  std::vector<Choice> choices_;
  MemoryBudget::Reservation room_;  // of what `choices_` hold
  bool head_sent_ = false;
  bool broken_ = false;  // the client was told that it ends here
};

}  // namespace slip
