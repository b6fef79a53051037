// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "server/http/memory_budget.h"
#include "server/http/options.h"
#include "server/http/reply.h"
#include "server/http/wire.h"

namespace slip {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Whether the connection stays open for more requests (RFC 9112, 9.3); "close" in any Connection header ends it.
// REQUIRES: the head was read.
bool keeps_alive(const RequestParser& parser);

// Reads the requests of one connection in turn, within the limits and deadlines of `options`. Raw head bytes are
// checked before parsing (server/http/request_head.h). A request that misses its deadline gets a 408; a connection
// without any byte of a request counts as gone. On the connection's I/O thread.
class RequestReader {
 public:
  RequestReader(Wire& wire, const ServerOptions& options);

  enum class Outcome : std::uint8_t { kRead, kRefused, kGone };
  struct Result {
    Outcome outcome = Outcome::kGone;
    Reply refusal;  // with kRefused; the connection must then be closed
  };
  // Reads up to the end of the headers; between requests for at most `idle_timeout`. An absolute target is reduced to
  // its path, and its host replaces Host.
  boost::asio::awaitable<Result> read_head(RequestParser& parser);
  // Reserves memory for the body before it is read: all of a body with known length, else what has arrived.
  bool reserve(const RequestParser& parser, MemoryBudget::Reservation& room) const;
  // Reads the body, without trailers; a 503 if memory runs out. REQUIRES: read_head() returned kRead.
  boost::asio::awaitable<Result> read_body(RequestParser& parser, MemoryBudget::Reservation& room);

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  boost::asio::awaitable<std::size_t> read_more(Deadline deadline);
  boost::asio::mutable_buffer room_for_more();
  std::string_view unread() const;
  // The length of a complete head, else 0. Sets a refusal if it cannot become valid.
  std::size_t find_head(std::size_t seen, std::optional<Reply>& refusal);
  std::optional<Reply> parse(RequestParser& parser, std::size_t n_bytes);

  Wire& wire_;
  const ServerOptions& options_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace slip
