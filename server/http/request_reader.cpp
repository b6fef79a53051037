// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_reader.h"

#include <algorithm>
#include <bit>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <string_view>
#include <utility>

#include "server/http/authority.h"
#include "server/http/request_head.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;

constexpr std::size_t kReadBytes = 16384;
// The buffer holds one piece at a time, the parser the body
constexpr std::size_t kBodyWindow = std::size_t{64} << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kLineEnd = "\r\n";
// Limit of a body's chunk extensions, leading zeros of chunk sizes and trailers together; the same as in Node and Go.
constexpr std::size_t kMaxChunkExtraBytes = std::size_t{16} << 10;

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

Reply refuse_bare_line_feed() {
  return refuse(400, "not a valid HTTP request: a line ends without CR", "bad_request");
}

// The parser would wait for a CR.
bool has_bare_line_feed(std::string_view lines) {
  for (auto at = lines.find('\n'); at != std::string_view::npos; at = lines.find('\n', at + 1)) {
    if (at == 0 || lines[at - 1] != '\r') return true;
  }
  return false;
}

// The parser takes any byte within quotes. Another one on the way may end the line at a bare line feed there, and read
// another request.
bool has_control(std::string_view extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; });
}

// The parser would join such lines (RFC 9112, 5.2). `bytes` begin behind the last chunk's extensions, and hold all of
// the trailers.
bool has_folded_trailer(std::string_view bytes) {
  const std::string_view lines = bytes.substr(0, bytes.find(kHeadEnd));
  return lines.find("\r\n ") != std::string_view::npos || lines.find("\r\n\t") != std::string_view::npos;
}

Reply refuse_chunk_extras() {
  return refuse(400, "not a valid HTTP request: chunk extensions and trailers are too long", "bad_request");
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

// The result of a read without bytes: the client has left, or the deadline has passed. A client that leaves at the
// deadline is sent a 408 that it never reads.
RequestReader::Result not_arrived(std::chrono::steady_clock::time_point deadline, std::string_view part,
                                  std::chrono::milliseconds patience, std::string_view option) {
  if (std::chrono::steady_clock::now() < deadline) return gone();
  std::string message = "the request's ";
  message.append(part).append(" did not arrive within ").append(std::to_string(patience.count())).append(" ms, ");
  return refused(refuse(408, message.append(option), "request_timeout"));
}

// A chunk's bytes besides its data: its size in hexadecimal digits and two line ends.
std::size_t chunk_frame_bytes(std::uint64_t size) {
  constexpr int kDigitBits = 4;
  const auto digits = static_cast<std::size_t>((std::bit_width(size) + kDigitBits - 1) / kDigitBits);
  return std::max<std::size_t>(digits, 1) + 2 * kLineEnd.size();
}

// RFC 9112, 3.2.2: the host of an absolute target replaces Host. Later code sees only the path.
void resolve_target(RequestParser& parser) {
  auto& request = parser.get();
  const auto target = parse_target(request.method_string(), request.target());
  if (!target || target->authority.empty()) return;
  const std::string authority(target->authority);  // a view of the target, which is replaced below
  request.set(http::field::host, authority);
  request.target(target->origin_form);
}

}  // namespace

bool keeps_alive(const RequestParser& parser) {
  bool close = false, keep_alive = parser.get().version() >= 11;
  const auto [first, last] = parser.get().equal_range(http::field::connection);
  for (auto line = first; line != last; ++line) {
    http::token_list options(line->value());
    close = close || options.exists("close");
    keep_alive = keep_alive || options.exists("keep-alive");
  }
  return keep_alive && !close;
}

RequestReader::RequestReader(Wire& wire, const ServerOptions& options)
    : wire_(wire), options_(options), buffer_(options.max_header_bytes + kBodyWindow) {}

asio::mutable_buffer RequestReader::room_for_more() {
  return buffer_.prepare(std::min(kReadBytes, buffer_.max_size() - buffer_.size()));
}

awaitable<std::size_t> RequestReader::read_more(Deadline deadline) {
  // A read of bytes that are ready ends before its deadline can cancel it.
  if (std::chrono::steady_clock::now() >= deadline) co_return 0;
  const std::size_t n = co_await wire_.read_some_until(room_for_more(), deadline);
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
  // Awaited in a statement of its own, here and below: GCC 12 loses exceptions of an awaited operand of &&.
  if (unread().empty()) {
    wire_.expires_after(options_.idle_timeout);
    const std::size_t n = co_await wire_.read_some(room_for_more());
    if (n == 0) co_return gone();
    buffer_.commit(n);
  }
  const Deadline deadline = std::chrono::steady_clock::now() + options_.header_timeout;
  const auto missed = [&] {  // an empty line before a request is not part of it
    if (unread().empty()) return gone();
    return not_arrived(deadline, "headers", options_.header_timeout, "server.header_timeout_ms");
  };
  if (unread().size() < kLineEnd.size()) {
    if (co_await read_more(deadline) == 0) co_return missed();
  }
  // RFC 9112, 2.2: allowed once before a request
  if (unread().starts_with(kLineEnd)) buffer_.consume(kLineEnd.size());
  for (std::size_t seen = 0;;) {
    std::optional<Reply> refusal;
    const std::size_t size = find_head(seen, refusal);
    if (size > 0) refusal = parse(parser, size);
    if (size > 0 && !refusal && !parser.is_header_done()) {
      refusal = refuse_fault(http::make_error_code(http::error::partial_message));
    }
    if (refusal) co_return refused(std::move(*refusal));
    if (size > 0) {
      resolve_target(parser);
      co_return whole();
    }
    seen = unread().size();
    if (co_await read_more(deadline) == 0) co_return missed();
  }
}

bool RequestReader::reserve(const RequestParser& parser, MemoryBudget::Reservation& room) const {
  if (parser.is_done()) return true;
  // A body of unknown length grows by doubling.
  const std::size_t so_far = 2 * (parser.get().body().size() + unread().size());
  const std::size_t needed = parser.content_length()
                                 ? static_cast<std::size_t>(*parser.content_length())
                                 : std::min<std::size_t>(std::max(so_far, kReadBytes), options_.max_body_bytes);
  return needed <= room.bytes() || room.resize(needed);
}

awaitable<RequestReader::Result> RequestReader::read_body(RequestParser& parser, MemoryBudget::Reservation& room) {
  const Deadline deadline = std::chrono::steady_clock::now() + options_.body_timeout;
  const auto head = parser.chunked() ? std::optional(parser.get().base()) : std::nullopt;
  std::size_t frames = 0, consumed = 0;
  // `extensions` lie in the buffer. The parser tells of the last chunk, of size 0, once all trailers are there.
  auto add_frame = [&](std::uint64_t size, std::string_view extensions, beast::error_code& fault) {
    if (has_control(extensions)) fault = http::error::bad_chunk_extension;
    const auto n_before = static_cast<std::size_t>(extensions.data() + extensions.size() - unread().data());
    if (size == 0 && has_folded_trailer(unread().substr(n_before))) fault = http::error::bad_obs_fold;
    frames += chunk_frame_bytes(size);
  };
  if (head) parser.on_chunk_header(add_frame);
  while (!parser.is_done()) {
    if (!reserve(parser, room)) {
      Reply refusal = no_room_reply(options_.retry_after_s);
      refusal.close = true;
      co_return refused(std::move(refusal));
    }
    const std::size_t before = unread().size();
    if (before > 0) {
      if (auto refusal = parse(parser, before)) co_return refused(std::move(*refusal));
    }
    const bool stuck = unread().size() == before;
    consumed += before - unread().size();
    // If the parser makes no progress, the unread bytes are an unfinished chunk line or trailer.
    if (head && stuck && has_bare_line_feed(unread())) co_return refused(refuse_bare_line_feed());
    const std::size_t not_data = consumed + (stuck ? before : 0) - parser.get().body().size();
    if (head && not_data > frames + kMaxChunkExtraBytes) co_return refused(refuse_chunk_extras());
    if (parser.is_done() || !(stuck || unread().empty())) continue;
    if (co_await read_more(deadline) == 0) {
      co_return not_arrived(deadline, "body", options_.body_timeout, "server.body_timeout_ms");
    }
  }
  if (head) parser.get().base() = *head;  // drops the trailers, which are not headers (RFC 9110, 6.5.1)
  co_return whole();
}

}  // namespace slip
