// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "server/connection_table.h"
#include "server/gatekeeper.h"
#include "server/key_quotas.h"
#include "server/request_log.h"
#include "server/request_reader.h"
#include "server/service.h"
#include "server/wire.h"
#include "server/worker_pool.h"

namespace slip {

// What all sessions share; outlives them.
struct SessionShare {
  Service& service;
  const Gatekeeper& gatekeeper;
  KeyQuotas& quotas;
  ConnectionTable& connections;
  WorkerPool& workers;
};

// One connection, one coroutine, on one I/O thread: read a request, answer it, again. While a request's work waits for
// the worker pool, that coroutine looks whether the client is there. A second one watches the peer while an answer is
// being made, so that a gone client is noticed between writes.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::unique_ptr<Wire> wire, SessionShare share);

  // REQUIRES: the connection table knows this one as `place`.
  boost::asio::awaitable<void> run(ConnectionTable::Id place);
  void drop();  // the connection ends as it is; any thread

 private:
  enum class Next : std::uint8_t { kGoOn, kClose, kCloseUnread };  // unread: the peer may still be sending
  struct Answer;
  // A request's body and its share of the memory budget; the work on it owns both.
  struct Body {
    std::string bytes;
    MemoryBudget::Reservation room;
  };

  boost::asio::awaitable<Next> serve_one();
  void begin_log();
  boost::asio::awaitable<Next> receive(RequestParser& parser);
  boost::asio::awaitable<Next> answer_head(RequestParser& parser);
  bool take_request_id(const RequestParser& parser);
  boost::asio::awaitable<Next> route(RequestParser& parser);
  template <class Work>
  boost::asio::awaitable<Next> reply_from_worker(RequestParser& parser, Work work);
  Body take_body(RequestParser& parser);
  template <class Work>
  boost::asio::awaitable<std::optional<std::invoke_result_t<Work&>>> run_while_there(WorkerPool::Lane lane, Work work);
  boost::asio::awaitable<bool> client_has_left(std::int64_t& probe_at_us);
  boost::asio::awaitable<Next> delete_request(std::string_view target);
  boost::asio::awaitable<Next> generate(Endpoint endpoint, RequestParser& parser);
  boost::asio::awaitable<Next> give_answer(std::shared_ptr<Answer> answer);
  boost::asio::awaitable<Next> collect(Answer& answer);
  boost::asio::awaitable<Next> stream(Answer& answer);
  boost::asio::awaitable<bool> send_what_came(Answer& answer);
  boost::asio::awaitable<Next> give_up(Answer& answer, const Error& why);
  void log_answers(const Answer& answer) const;
  boost::asio::awaitable<bool> send_heartbeat(Answer& answer);
  std::string stream_head(const Answer& answer);
  boost::asio::awaitable<void> watch_peer(std::shared_ptr<Answer> answer);
  boost::asio::awaitable<bool> probe(Answer& answer);
  void on_client_gone(const Answer& answer);
  Next unanswered();
  Next left_in_queue();
  boost::asio::awaitable<Next> reply(Reply reply);
  boost::asio::awaitable<bool> send(std::string bytes);
  void add_own_headers(Reply& reply) const;
  void log_request() const noexcept;
  std::string now_text() const;

  std::unique_ptr<Wire> wire_;
  SessionShare share_;
  const ServerOptions& options_;
  RequestReader reader_;
  ConnectionTable::Id place_ = 0;
  // Of the request at hand.
  Guest guest_;
  RequestLog log_;
  MemoryBudget::Reservation body_room_;
  bool keep_alive_ = false, http_1_0_ = false, head_only_ = false;
  bool probes_only_ = false;   // all other connections are taken
  bool answer_begun_ = false;  // some of it may be on the wire
};

}  // namespace slip
