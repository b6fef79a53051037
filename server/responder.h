// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/gatekeeper.h"
#include "server/http/reply.h"
#include "server/http/wire.h"
#include "server/openai/service.h"
#include "server/request_log.h"

namespace slip {

// One request and its answer, as far as they are known. Whoever reads the request fills in what its head says.
struct Exchange {
  Principal principal;
  RequestLog log;
  bool keep_alive = false;
  bool http_1_0 = false;
  bool head_only = false;     // a HEAD request
  bool answer_begun = false;  // some of it may be on the wire; interim answers do not count
};

// Writes the answers to one connection's requests, one after the other, and counts and logs them. On the connection's
// I/O thread. A client that does not take a piece within the write timeout is reported as a failed write.
// Tested in tests/server/session_test.cpp.
class Responder {
 public:
  enum class Next : std::uint8_t { kGoOn, kClose, kCloseUnread };  // unread: the peer may still be sending

  // Both outlive this object.
  Responder(Wire& wire, Service& service) : wire_(wire), service_(service) {}

  void begin_exchange() { exchange_ = {}; }
  Exchange& exchange() { return exchange_; }
  const Exchange& exchange() const { return exchange_; }

  // The whole answer. Where the memory budget has no room for it, a 503 instead.
  boost::asio::awaitable<Next> reply(Reply reply);
  // Status line and headers of a stream of events, which the caller sends. Chunked, but over HTTP/1.0.
  std::string stream_head();
  // False when the write failed.
  boost::asio::awaitable<bool> send(std::string bytes);
  // "100 Continue"; nothing over HTTP/1.0, which has no interim answers. False when the write failed.
  boost::asio::awaitable<bool> send_continue();
  // Logs and counts that the client left before any of the answer was sent.
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
