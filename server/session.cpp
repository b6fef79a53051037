// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <poll.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "server/routes.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kLingerBytes = std::size_t{8} << 20;
constexpr std::chrono::milliseconds kLingerTime{2000};
constexpr std::chrono::milliseconds kPeerCheck{1000};
constexpr std::size_t kWriteBytes = std::size_t{64} << 10;

std::optional<std::string> header(const http::request<http::string_body>& request, std::string_view name) {
  const auto found = request.find(name);
  if (found == request.end()) return std::nullopt;
  return std::string(found->value());
}

// A request that cannot be read as HTTP, as an answer where one can still be given.
std::optional<Reply> unreadable(const beast::error_code& fault) {
  const auto refusal = [](int status, const std::string& message, const std::string& code) {
    Reply reply = error_reply(status, {.message = message, .code = code});
    reply.close = true;
    return reply;
  };
  if (fault == http::error::header_limit)
    return refusal(431, "the request's headers are too large", "headers_too_large");
  if (fault == http::error::body_limit) return refusal(413, "the request's body is too large", "body_too_large");
  if (fault == http::error::end_of_stream || fault == http::error::partial_message) return std::nullopt;
  if (fault.category() == http::make_error_code(http::error::bad_method).category()) {
    return refusal(400, "not a valid HTTP request: " + fault.message(), "bad_request");
  }
  return std::nullopt;  // the connection itself failed or timed out
}

}  // namespace

void Waker::notify(const std::shared_ptr<Waker>& waker) noexcept {
  try {
    asio::post(waker->timer_.get_executor(), [waker] {
      waker->notified_ = true;
      waker->timer_.cancel();
    });
  } catch (const std::exception& error) {
    log_error(std::string("cannot wake a connection: ") + error.what());
  }
}

awaitable<bool> Waker::wait(std::chrono::milliseconds timeout) {
  if (!notified_) {
    timer_.expires_after(timeout);
    co_await timer_.async_wait(kTuple);
  }
  co_return std::exchange(notified_, false);
}

// One answer in the making; shared with the watcher, which may outlive it by a moment.
struct Session::Answer {
  AnswerIdentity who;
  std::vector<std::shared_ptr<AnswerChannel>> channels;  // one a choice, as in `who`
  std::vector<Choice> choices;
  std::shared_ptr<Waker> waker;
  bool done = false;       // the session needs no watching any more
  bool peer_gone = false;  // said by the watcher
  bool head_sent = false;
  bool broken = false;  // the client was told that it ends here
};

Session::Session(asio::ip::tcp::socket socket, SessionShare share)
    : stream_(std::move(socket)),
      buffer_(share.service.options().max_header_bytes + (std::size_t{64} << 10)),
      share_(share),
      options_(share.service.options()) {}

awaitable<void> Session::run() {
  const auto self = shared_from_this();
  auto next = Next::kGoOn;
  while (next == Next::kGoOn) next = co_await serve_one();
  if (next == Next::kCloseUnread) co_await linger();
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
}

awaitable<Session::Next> Session::serve_one() {
  Parser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  route_ = "other";
  keep_alive_ = false;
  http_1_0_ = false;
  head_only_ = false;
  auto next = Next::kClose;
  if (!co_await read_head(parser, next)) co_return next;
  keep_alive_ = parser.get().keep_alive() && !share_.service.draining();
  http_1_0_ = parser.get().version() < 11;
  head_only_ = parser.get().method() == http::verb::head;
  route_ = route_label(parser.get().target());
  if (auto refusal = share_.gatekeeper.refuse(visitor(parser), tenant_)) co_return co_await reply(std::move(*refusal));
  if (auto refusal = refuse_route(parser.get().method_string(), parser.get().target())) {
    refusal->close = refusal->close || !parser.is_done();
    co_return co_await reply(std::move(*refusal));
  }
  if (!co_await read_body(parser, next)) co_return next;
  co_return co_await route(parser);
}

awaitable<bool> Session::read_head(Parser& parser, Next& next) {
  if (buffer_.size() == 0) {
    stream_.expires_after(options_.idle_timeout);
    auto [fault, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kTuple);
    if (fault) co_return false;
    buffer_.commit(n);
  }
  stream_.expires_after(options_.header_timeout);
  auto [fault, n] = co_await http::async_read_header(stream_, buffer_, parser, kTuple);
  if (!fault) co_return true;
  if (auto refusal = unreadable(fault)) next = co_await reply(std::move(*refusal));
  co_return false;
}

awaitable<bool> Session::read_body(Parser& parser, Next& next) {
  if (!parser.is_done() && parser.get()[http::field::expect] == "100-continue") {
    if (!co_await send("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  stream_.expires_after(options_.body_timeout);
  beast::error_code fault;
  while (!parser.is_done() && !fault) {
    // In pieces: the connection's buffer holds one piece, the parser holds the body.
    auto [piece_fault, n] = co_await http::async_read_some(stream_, buffer_, parser, kTuple);
    fault = piece_fault;
  }
  if (!fault) co_return true;
  if (auto refusal = unreadable(fault)) next = co_await reply(std::move(*refusal));
  co_return false;
}

Visitor Session::visitor(const Parser& parser) const {
  const auto& request = parser.get();
  const auto value = [&](http::field name) -> std::optional<std::string_view> {
    const auto found = request.find(name);
    if (found == request.end()) return std::nullopt;
    return std::string_view(found->value().data(), found->value().size());
  };
  const std::size_t hosts = request.count(http::field::host);
  Visitor visitor;
  visitor.method = {request.method_string().data(), request.method_string().size()};
  visitor.path = path_of(std::string_view(request.target().data(), request.target().size()));
  visitor.host = value(http::field::host);
  visitor.origin = value(http::field::origin);
  visitor.authorization = value(http::field::authorization);
  visitor.content_type = value(http::field::content_type);
  visitor.one_host = hosts == 1 || (hosts == 0 && request.version() < 11);
  return visitor;
}

awaitable<Session::Next> Session::route(const Parser& parser) {
  const auto path = path_of(parser.get().target());
  if (path == "/v1/chat/completions") co_return co_await generate(Endpoint::kChat, parser);
  if (path == "/v1/completions") co_return co_await generate(Endpoint::kCompletion, parser);
  if (path == "/v1/drafts") {
    Reply drafts = co_await asio::co_spawn(
        share_.desk,
        [](Service& service) -> awaitable<Reply> {
          co_return guarded_reply([&] { return service.drafts(); }, service.options().retry_after_s);
        }(share_.service),
        asio::use_awaitable);
    co_return co_await reply(std::move(drafts));
  }
  co_return co_await reply(plain_reply(share_.service, path));
}

awaitable<Session::Next> Session::generate(Endpoint endpoint, const Parser& parser) {
  auto answer = std::make_shared<Answer>();
  answer->waker = std::make_shared<Waker>(stream_.get_executor());
  const SinkMaker make_sink = [answer, bytes = options_.max_answer_bytes] {
    return answer->channels.emplace_back(
        std::make_shared<AnswerChannel>(bytes, [waker = answer->waker] { Waker::notify(waker); }));
  };
  const CallHeaders headers{header(parser.get(), "X-Slipstream-Topic"), header(parser.get(), "X-Slipstream-Learn")};
  const ActiveAnswer active(share_.service);
  const auto work = [](Service& service, Endpoint where, std::string_view body, const CallHeaders& extra,
                       TenantId tenant, const SinkMaker& sinks) -> awaitable<Admission> {
    co_return admit(service, where, body, extra, tenant, sinks);
  };
  Admission admission = co_await asio::co_spawn(
      share_.desk, work(share_.service, endpoint, parser.get().body(), headers, tenant_, make_sink),
      asio::use_awaitable);
  if (admission.refusal) co_return co_await reply(std::move(*admission.refusal));
  answer->who = std::move(admission.who);
  answer->choices.resize(answer->channels.size());
  asio::co_spawn(
      stream_.get_executor(),
      [self = shared_from_this(), answer]() -> awaitable<void> { co_await self->watch_peer(answer); }, asio::detached);
  const auto next = answer->who.stream ? co_await stream(*answer) : co_await collect(*answer);
  answer->done = true;
  beast::error_code ignored;
  stream_.socket().cancel(ignored);  // ends the watcher's wait; nothing else is under way here
  co_return next;
}

awaitable<Session::Next> Session::collect(Answer& answer) {
  while (true) {
    bool overflowed = false;
    std::optional<Error> fault;
    for (std::size_t i = 0; i < answer.channels.size(); ++i) {
      auto taken = answer.channels[i]->take();
      gather(answer.who, taken, /*kept=*/true, answer.choices[i]);
      overflowed |= taken.overflowed || answer.choices[i].part.text.size() > options_.max_answer_bytes;
      if (taken.finished && !fault) fault = fault_of(*taken.finished);
    }
    if (answer.peer_gone) {
      share_.service.cancel(answer.who);
      share_.service.metrics().on_client_gone();
      co_return Next::kClose;
    }
    if (fault) co_return co_await give_up(answer, *fault);
    if (overflowed) {
      co_return co_await give_up(answer, Error(ErrorCode::kInternal, "the answer outgrew its buffer"));
    }
    if (all_finished(answer.choices)) {
      log_answers(answer);
      Reply whole;
      whole.body = whole_answer(answer.who, answer.choices);
      co_return co_await reply(std::move(whole));
    }
    co_await answer.waker->wait(options_.heartbeat);
  }
}

// One choice that cannot be made takes the others with it.
awaitable<Session::Next> Session::give_up(Answer& answer, const Error& why) {
  if (!all_finished(answer.choices)) share_.service.cancel(answer.who);
  co_return co_await reply(error_reply(why, options_.retry_after_s));
}

void Session::log_answers(const Answer& answer) const {
  if (!options_.log_prompts) return;
  for (const Choice& choice : answer.choices) log_info(answer.who.id + " answer: " + choice.part.text);
}

awaitable<Session::Next> Session::stream(Answer& answer) {
  bool alive = true;
  while (true) {
    if (alive) alive = co_await send_what_came(answer);
    if (!alive || answer.peer_gone) {
      share_.service.cancel(answer.who);
      share_.service.metrics().on_client_gone();
      co_return Next::kClose;
    }
    if (all_finished(answer.choices)) {
      co_return !answer.broken && keep_alive_ && !http_1_0_ ? Next::kGoOn : Next::kClose;
    }
    if (answer.broken) {
      share_.service.cancel(answer.who);
      co_return Next::kClose;
    }
    if (!co_await answer.waker->wait(options_.heartbeat)) alive = co_await send_heartbeat(answer);
  }
}

// Status, headers and the opening events, as late as the first byte: until then an error is still a status.
std::string Session::stream_head(const Answer& answer) const {
  Reply head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  std::string opening = opening_events(answer.who);
  if (!http_1_0_ && !opening.empty()) opening = chunk_text(opening);
  share_.service.metrics().on_http(route_, 200);
  return head_text(head, {keep_alive_ && !http_1_0_, !http_1_0_, now_text()}) + opening;
}

awaitable<bool> Session::send_heartbeat(Answer& answer) {
  std::string bytes = std::exchange(answer.head_sent, true) ? std::string() : stream_head(answer);
  bytes += http_1_0_ ? std::string(kHeartbeat) : chunk_text(kHeartbeat);
  co_return co_await send(std::move(bytes));
}

// Everything that came of any choice, in one write.
awaitable<bool> Session::send_what_came(Answer& answer) {
  std::string events;
  bool came = false;
  for (std::size_t i = 0; i < answer.channels.size() && !answer.broken; ++i) {
    auto taken = answer.channels[i]->take();
    if (taken.empty()) continue;
    gather(answer.who, taken, /*kept=*/false, answer.choices[i]);
    const auto fault = taken.finished ? fault_of(*taken.finished) : std::nullopt;
    answer.broken = fault || taken.overflowed;
    if (fault && !came && !answer.head_sent) {
      keep_alive_ = false;
      co_await reply(error_reply(*fault, options_.retry_after_s));
      co_return true;
    }
    came = true;
    events += stream_text(answer.who, i, taken, answer.choices);
    if (options_.log_prompts) answer.choices[i].part.text += taken.part.text;
  }
  if (!came) co_return true;
  const bool ends = answer.broken || all_finished(answer.choices);
  if (ends) log_answers(answer);
  std::string bytes = std::exchange(answer.head_sent, true) ? std::string() : stream_head(answer);
  if (!events.empty()) bytes += http_1_0_ ? events : chunk_text(events);
  if (!http_1_0_ && ends) bytes += kLastChunk;
  co_return co_await send(std::move(bytes));
}

// Waits for the socket to become readable: an end of file or a reset means that nobody waits for the answer. Bytes of a
// next request say nothing, so then the peer is asked now and again.
awaitable<void> Session::watch_peer(std::shared_ptr<Answer> answer) {
  asio::steady_timer pause(stream_.get_executor());
  while (!answer->done && stream_.socket().is_open()) {
    auto [fault] = co_await stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, kTuple);
    if (answer->done || fault == asio::error::operation_aborted) co_return;
    if (fault || peer_gone()) {
      answer->peer_gone = true;
      Waker::notify(answer->waker);
      share_.service.cancel(answer->who);
      co_return;
    }
    pause.expires_after(kPeerCheck);
    co_await pause.async_wait(kTuple);
  }
}

bool Session::peer_gone() {
  pollfd state{stream_.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

awaitable<Session::Next> Session::reply(Reply reply) {
  const bool keep = keep_alive_ && !reply.close;
  share_.service.metrics().on_http(route_, reply.status);
  std::string bytes = head_text(reply, {keep, /*chunked=*/false, now_text()});
  if (!head_only_) bytes += reply.body;
  const bool sent = co_await send(std::move(bytes));
  if (!sent) co_return Next::kClose;
  if (keep) co_return Next::kGoOn;
  co_return reply.close ? Next::kCloseUnread : Next::kClose;
}

// Each piece has the whole write timeout: slow clients are served, stuck ones are not.
awaitable<bool> Session::send(std::string bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    stream_.expires_after(options_.write_timeout);
    const auto piece = asio::buffer(bytes.data() + sent, std::min(kWriteBytes, bytes.size() - sent));
    auto [fault, n] = co_await stream_.async_write_some(piece, kTuple);
    if (fault) co_return false;
    sent += n;
  }
  co_return true;
}

// Closing with unread bytes makes the kernel send a reset, which may overtake our answer: read a little first.
awaitable<void> Session::linger() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLingerTime);
  buffer_.clear();
  for (std::size_t total = 0; total < kLingerBytes;) {
    auto [fault, n] = co_await stream_.async_read_some(buffer_.prepare(kWriteBytes), kTuple);
    if (fault) co_return;
    total += n;
  }
}

std::string Session::now_text() const {
  return http_date(static_cast<long>(wall_us() / 1'000'000));
}

}  // namespace slip
