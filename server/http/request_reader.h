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

// Whether the client wants to send more requests (RFC 9112, 9.3): one "close" in any Connection header decides.
// REQUIRES: the head was read.
bool keeps_alive(const RequestParser& parser);

// Reads one connection's requests, one after the other, within the bounds and deadlines of `options`. A head is looked
// at as raw bytes before it is parsed (server/http/request_head.h). A request that has begun to arrive and misses its
// deadline is refused with a 408; a connection on which no byte of one came is gone. On the connection's I/O thread.
class RequestReader {
 public:
  RequestReader(Wire& wire, const ServerOptions& options);

  enum class Outcome : std::uint8_t { kRead, kRefused, kGone };
  struct Result {
    Outcome outcome = Outcome::kGone;
    Reply refusal;  // with kRefused; the connection cannot go on after it
  };
  // Up to the end of the headers, which wait between requests for `idle_timeout`. Of an absolute target the path is
  // left, its host stands in Host.
  boost::asio::awaitable<Result> read_head(RequestParser& parser);
  // Makes room for the body before it is read: for all of a body of known length, for what has come of another one.
  bool reserve(const RequestParser& parser, MemoryBudget::Reservation& room) const;
  // The rest, without trailers; a 503 where there is no room for it. REQUIRES: read_head() came back with kRead.
  boost::asio::awaitable<Result> read_body(RequestParser& parser, MemoryBudget::Reservation& room);

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  boost::asio::awaitable<std::size_t> read_more(Deadline deadline);
  boost::asio::mutable_buffer room_for_more();
  std::string_view unread() const;
  // The head's bytes once they are whole, 0 before; a refusal where it can be none.
  std::size_t find_head(std::size_t seen, std::optional<Reply>& refusal);
  std::optional<Reply> parse(RequestParser& parser, std::size_t n_bytes);

  Wire& wire_;
  const ServerOptions& options_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace slip
