// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/gatekeeper.h"
#include "server/http/memory_budget.h"
#include "server/http/reply.h"
#include "server/http/wire.h"
#include "server/openai/service.h"
#include "server/request_log.h"

namespace slip {

// One request and its answer, as far as known. The code that reads the request fills in its head.
struct Exchange {
  Principal principal;
  RequestLog log;
  bool keep_alive = false;
  bool http_1_0 = false;
  bool head_only = false;     // a HEAD request
  bool answer_begun = false;  // part of the answer may have been sent; interim answers do not count
  bool in_mid_send = false;   // the last send() ended after a part of its bytes
};

// Writes, counts and logs the answers to one connection's requests, in turn. On the connection's I/O thread. If a
// client accepts no bytes within the write timeout, the write fails. Tested in tests/server/session_test.cpp.
class Responder {
 public:
  enum class Next : std::uint8_t { kGoOn, kClose, kCloseUnread };  // kCloseUnread: the peer may still be sending

  // Both must outlive this object.
  Responder(Wire& wire, Service& service) : wire_(wire), service_(service) {}

  void begin_exchange() { exchange_ = {}; }
  Exchange& exchange() { return exchange_; }
  const Exchange& exchange() const { return exchange_; }

  // Sends a complete answer; a 503 instead if the memory budget has no room for it. `room`: what the caller has
  // reserved for the answer already.
  boost::asio::awaitable<Next> reply(Reply reply, MemoryBudget::Reservation room);
  boost::asio::awaitable<Next> reply(Reply reply);
  // Status line and headers of an event stream, which the caller sends. Chunked, except over HTTP/1.0.
  std::string stream_head();
  // False when the write failed.
  boost::asio::awaitable<bool> send(std::string bytes);
  // Sends "100 Continue"; nothing over HTTP/1.0, which has no interim answers. False when the write failed.
  boost::asio::awaitable<bool> send_continue();
  // Logs and counts a client that left before any of the answer was sent.
  Next unanswered();

  void begin_log();
  bool log_begun() const { return !exchange_.log.id.empty(); }
  void log_request() const noexcept;

 private:
  void add_own_headers(Reply& reply) const;

  Wire& wire_;
  Service& service_;
  Exchange exchange_;
};

inline constexpr const char* kRequestIdHeader = "X-Request-Id";

}  // namespace slip
