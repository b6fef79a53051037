// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <string>

#include "server/gatekeeper.h"
#include "server/service.h"

namespace slip {

// What all sessions share; outlives them.
struct SessionShare {
  Service& service;
  const Gatekeeper& gatekeeper;
  boost::asio::thread_pool& desk;  // parsing, tokenising and file reading: off the I/O threads
};

// Wakes a connection's coroutine from another thread. It lives as long as anyone may call notify().
class Waker {
 public:
  explicit Waker(boost::asio::any_io_executor strand) : timer_(std::move(strand)) {}
  // Any thread; never throws.
  static void notify(const std::shared_ptr<Waker>& waker) noexcept;
  // On the strand: true when notified (also since the last wait), false after `timeout`.
  boost::asio::awaitable<bool> wait(std::chrono::milliseconds timeout);

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

// One connection, one coroutine, on its own strand: read a request, answer it, again. A second coroutine watches the
// peer while an answer is being made, so that a gone client is noticed without a write.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, SessionShare share);

  boost::asio::awaitable<void> run();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Next : std::uint8_t { kGoOn, kClose, kCloseUnread };  // unread: the peer may still be sending
  struct Answer;

  boost::asio::awaitable<Next> serve_one();
  boost::asio::awaitable<bool> read_head(Parser& parser, Next& next);
  boost::asio::awaitable<bool> read_body(Parser& parser, Next& next);
  boost::asio::awaitable<Next> route(const Parser& parser);
  boost::asio::awaitable<Next> generate(Endpoint endpoint, const Parser& parser);
  boost::asio::awaitable<Next> collect(Answer& answer);
  boost::asio::awaitable<Next> stream(Answer& answer);
  boost::asio::awaitable<bool> send_what_came(Answer& answer);
  boost::asio::awaitable<Next> give_up(Answer& answer, const Error& why);
  void log_answers(const Answer& answer) const;
  boost::asio::awaitable<bool> send_heartbeat(Answer& answer);
  std::string stream_head(const Answer& answer) const;
  boost::asio::awaitable<void> watch_peer(std::shared_ptr<Answer> answer);
  boost::asio::awaitable<Next> reply(Reply reply);
  boost::asio::awaitable<bool> send(std::string bytes);
  boost::asio::awaitable<void> linger();
  Visitor visitor(const Parser& parser) const;
  bool peer_gone();
  std::string now_text() const;

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  SessionShare share_;
  const ServerOptions& options_;
  TenantId tenant_;
  std::string route_;  // of the request at hand, for metrics; one of ours
  bool keep_alive_ = false, http_1_0_ = false, head_only_ = false;
};

}  // namespace slip
