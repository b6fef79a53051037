// SPDX-License-Identifier: Apache-2.0
#include "server/responder.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <exception>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace slip {
namespace {

namespace asio = boost::asio;
using asio::awaitable;

constexpr const char* kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr int kClientClosed = 499;  // nginx's code for a client that left; used in log and metrics, never sent
// Replies up to this size, such as probes and refusals, need no room in the budget.
constexpr std::size_t kAlwaysSentBytes = 4096;
constexpr std::size_t kWriteBytes = std::size_t{64} << 10;

std::string now_text() {
  return http_date(static_cast<long>(wall_us() / 1'000'000));
}

// Changes `room` to the body's memory, of which a string that has grown may have twice what it needs.
bool fit(MemoryBudget::Reservation& room, std::string& body) {
  if (room.resize(body.capacity())) return true;
  body.shrink_to_fit();
  return room.resize(body.capacity());
}

}  // namespace

void Responder::begin_log() {
  exchange_.log.begun_us = monotonic_us();
  exchange_.log.id = service_.new_request_id();
  exchange_.log.method = "-";
  exchange_.log.route = "other";
}

void Responder::log_request() const noexcept {
  try {
    const std::string line = request_line(exchange_.log, monotonic_us());
    is_routine(exchange_.log) ? log_debug(line) : log_info(line);
  } catch (const std::exception&) {  // no memory for the line
  }
}

Responder::Next Responder::unanswered() {
  RequestLog& log = exchange_.log;
  log.status = kClientClosed;
  log.client_gone = true;
  service_.metrics().on_http(log.route, log.status);
  return Next::kClose;
}

// Adds the headers that every answer has.
void Responder::add_own_headers(Reply& reply) const {
  reply.headers.emplace_back(kRequestIdHeader, exchange_.log.id);
  if (exchange_.principal.allowed_origin.empty()) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", exchange_.principal.allowed_origin);
  reply.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  reply.headers.emplace_back("Vary", "Origin");
}

awaitable<Responder::Next> Responder::reply(Reply reply) {
  return this->reply(std::move(reply), MemoryBudget::Reservation(service_.memory()));
}

awaitable<Responder::Next> Responder::reply(Reply reply, MemoryBudget::Reservation room) {
  if (!fit(room, reply.body) && reply.body.size() > kAlwaysSentBytes) {
    room.release();
    const bool never_fits = reply.body.size() > service_.memory().most_at_once();
    reply = never_fits ? error_reply(answer_too_large(reply.body.size()), 0)
                       : no_room_reply(service_.options().retry_after_s);
  }
  const bool keep = exchange_.keep_alive && !reply.close;
  exchange_.log.status = reply.status;
  add_own_headers(reply);
  std::string bytes = head_text(reply, {keep, /*chunked=*/false, now_text()});
  if (exchange_.head_only) reply.body.clear();
  // One write; a large body is not copied
  if (reply.body.size() <= kWriteBytes) bytes += std::exchange(reply.body, {});
  service_.metrics().on_http(exchange_.log.route, reply.status);
  bool sent = co_await send(std::move(bytes));
  if (sent && !reply.body.empty()) sent = co_await send(std::move(reply.body));
  if (!sent) co_return Next::kClose;
  if (keep) co_return Next::kGoOn;
  co_return reply.close ? Next::kCloseUnread : Next::kClose;
}

std::string Responder::stream_head() {
  Reply head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  add_own_headers(head);
  exchange_.log.status = head.status;
  service_.metrics().on_http(exchange_.log.route, head.status);
  const bool chunked = !exchange_.http_1_0;
  return head_text(head, {exchange_.keep_alive && chunked, chunked, now_text()});
}

// Each piece has the whole write timeout, so slow clients are served and stuck ones are not.
awaitable<bool> Responder::send(std::string bytes) {
  exchange_.answer_begun = true;
  for (std::size_t sent = 0; sent < bytes.size();) {
    wire_.expires_after(service_.options().write_timeout);
    const std::size_t piece = std::min(kWriteBytes, bytes.size() - sent);
    const std::size_t n = co_await wire_.write_some(asio::buffer(bytes.data() + sent, piece));
    if (n == 0) co_return false;
    sent += n;
    exchange_.in_mid_send = sent < bytes.size();
  }
  co_return true;
}

awaitable<bool> Responder::send_continue() {
  if (exchange_.http_1_0) co_return true;
  const bool begun = exchange_.answer_begun;
  std::string bytes = kContinue;
  const bool sent = co_await send(std::move(bytes));
  exchange_.answer_begun = begun;
  co_return sent;
}

}  // namespace slip
