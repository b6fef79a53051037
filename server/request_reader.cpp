// SPDX-License-Identifier: Apache-2.0
#include "server/request_reader.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <string_view>
#include <utility>

#include "server/request_head.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;

constexpr std::size_t kReadBytes = 16384;
constexpr std::size_t kBodyWindow = std::size_t{64} << 10;  // the buffer holds one piece, the parser holds the body
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kEmptyLine = "\r\n";

Reply refuse(int status, const std::string& message, const std::string& code) {
  Reply reply = error_reply(status, {.message = message, .code = code});
  reply.close = true;
  return reply;
}

Reply refuse_fault(const beast::error_code& fault) {
  if (fault == http::error::header_limit)
    return refuse(431, "the request's headers are too large", "headers_too_large");
  if (fault == http::error::body_limit) return refuse(413, "the request's body is too large", "body_too_large");
  return refuse(400, "not a valid HTTP request: " + fault.message(), "bad_request");
}

RequestReader::Result refused(Reply refusal) {
  return {RequestReader::Outcome::kRefused, std::move(refusal)};
}

RequestReader::Result whole() {
  return {RequestReader::Outcome::kRead, {}};
}

RequestReader::Result gone() {
  return {RequestReader::Outcome::kGone, {}};
}

}  // namespace

RequestReader::RequestReader(Wire& wire, const ServerOptions& options)
    : wire_(wire), options_(options), buffer_(options.max_header_bytes + kBodyWindow) {}

awaitable<std::size_t> RequestReader::read_more() {
  const std::size_t room = std::min(kReadBytes, buffer_.max_size() - buffer_.size());
  const std::size_t n = co_await wire_.read_some(buffer_.prepare(room));
  buffer_.commit(n);
  co_return n;
}

std::string_view RequestReader::unread() const {
  const auto bytes = buffer_.cdata();
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t RequestReader::find_head(std::size_t seen, std::optional<Reply>& refusal) {
  const std::string_view bytes = unread();
  const auto end = bytes.find(kHeadEnd, seen < kHeadEnd.size() ? 0 : seen - kHeadEnd.size());
  const bool complete = end != std::string_view::npos;
  const std::size_t size = complete ? end + kHeadEnd.size() : bytes.size();
  if (size > options_.max_header_bytes) {
    refusal = refuse_fault(http::make_error_code(http::error::header_limit));
    return 0;
  }
  const auto fault = complete ? fault_of_head(bytes.substr(0, size)) : fault_of_partial_head(bytes, seen);
  if (fault) refusal = refuse(400, "not a valid HTTP request: " + *fault, "bad_request");
  return complete && !fault ? size : 0;
}

std::optional<Reply> RequestReader::parse(RequestParser& parser, std::size_t n_bytes) {
  beast::error_code fault;
  buffer_.consume(parser.put(asio::const_buffer(buffer_.cdata().data(), n_bytes), fault));
  if (fault == http::error::need_more && unread().size() < buffer_.max_size()) return std::nullopt;
  if (fault) return refuse_fault(fault);
  return std::nullopt;
}

awaitable<RequestReader::Result> RequestReader::read_head(RequestParser& parser) {
  wire_.expires_after(options_.idle_timeout);
  if (unread().empty() && co_await read_more() == 0) co_return gone();
  wire_.expires_after(options_.header_timeout);
  if (unread().size() < kEmptyLine.size() && co_await read_more() == 0) co_return gone();
  if (unread().starts_with(kEmptyLine)) buffer_.consume(kEmptyLine.size());  // RFC 9112, 2.2: one may stand there
  for (std::size_t seen = 0;;) {
    std::optional<Reply> refusal;
    const std::size_t size = find_head(seen, refusal);
    if (size > 0) refusal = parse(parser, size);
    if (size > 0 && !refusal && !parser.is_header_done()) {
      refusal = refuse_fault(http::make_error_code(http::error::partial_message));
    }
    if (refusal) co_return refused(std::move(*refusal));
    if (size > 0) co_return whole();
    seen = unread().size();
    if (co_await read_more() == 0) co_return gone();
  }
}

awaitable<RequestReader::Result> RequestReader::read_body(RequestParser& parser) {
  wire_.expires_after(options_.body_timeout);
  while (!parser.is_done()) {
    const std::size_t before = unread().size();
    if (before > 0) {
      if (auto refusal = parse(parser, before)) co_return refused(std::move(*refusal));
    }
    const bool stuck = unread().size() == before;
    if (!parser.is_done() && (stuck || unread().empty()) && co_await read_more() == 0) co_return gone();
  }
  co_return whole();
}

}  // namespace slip
