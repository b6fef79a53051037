// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "server/request_id.h"
#include "server/routes.h"
#include "server/waker.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr const char* kRequestId = "X-Request-Id";
constexpr const char* kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr int kClientClosed = 499;  // nobody gets it; in log and metrics nginx' word for an unanswered request
constexpr std::size_t kLoggedMethodBytes = 16;
constexpr std::chrono::milliseconds kPeerCheck{1000};
// Probes and refusals are answered whatever others hold.
constexpr std::size_t kAlwaysSentBytes = 4096;
constexpr std::size_t kWriteBytes = std::size_t{64} << 10;

// Of several headers of one name their list, which is the same to every program on the way (RFC 9110, 5.3).
std::optional<std::string> header(const http::request<http::string_body>& request, std::string_view name) {
  const auto [first, last] = request.equal_range(name);
  if (first == last) return std::nullopt;
  std::string list(first->value());
  for (auto next = std::next(first); next != last; ++next) list.append(", ").append(next->value());
  return list;
}

// Tokenising 32 KiB takes some 3 ms on one core.
WorkerPool::Lane lane_of(std::size_t body_bytes) {
  constexpr std::size_t kQuickBytes = std::size_t{32} << 10;
  return body_bytes <= kQuickBytes ? WorkerPool::Lane::kQuick : WorkerPool::Lane::kSlow;
}

Visitor visitor_of(const RequestParser& parser) {
  const auto& request = parser.get();
  const auto value = [&](http::field name) -> std::optional<std::string_view> {
    const auto found = request.find(name);
    if (found == request.end()) return std::nullopt;
    return std::string_view(found->value().data(), found->value().size());
  };
  Visitor visitor;
  visitor.method = {request.method_string().data(), request.method_string().size()};
  visitor.path = path_of(std::string_view(request.target().data(), request.target().size()));
  visitor.host = value(http::field::host);
  visitor.origin = value(http::field::origin);
  visitor.authorization = value(http::field::authorization);
  visitor.content_type = value(http::field::content_type);
  visitor.content_encoding = value(http::field::content_encoding);
  return visitor;
}

enum class PeerState : std::uint8_t { kSends, kEnded, kGone };

PeerState peer_state(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  if (::poll(&state, 1, 0) <= 0) return PeerState::kSends;
  if ((state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return PeerState::kGone;
  return (state.revents & POLLRDHUP) != 0 ? PeerState::kEnded : PeerState::kSends;
}

}  // namespace

// One answer in the making; shared with the watcher, which may outlive it by a moment.
struct Session::Answer {
  AnswerIdentity who;
  std::vector<std::shared_ptr<AnswerChannel>> channels;  // one a choice, as in `who`
  std::vector<Choice> choices;
  MemoryBudget::Reservation room;  // of what `choices` hold
  std::shared_ptr<Waker> waker;
  bool done = false;             // the session needs no watching any more
  bool peer_gone = false;        // said by the watcher, as is the next
  bool peer_ended = false;       // it sends nothing more, but may still read
  std::int64_t probe_at_us = 0;  // monotonic: not before
  bool head_sent = false;
  bool broken = false;  // the client was told that it ends here
};

Session::Session(std::unique_ptr<Wire> wire, SessionShare share)
    : wire_(std::move(wire)),
      share_(share),
      options_(share.service.options()),
      reader_(*wire_, share.service.options()) {}

void Session::drop() {
  asio::post(wire_->socket().get_executor(), [self = shared_from_this()] {
    beast::error_code ignored;
    self->wire_->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  });
}

awaitable<void> Session::run(ConnectionTable::Id place) {
  const auto self = shared_from_this();
  place_ = place;
  wire_->expires_after(options_.header_timeout);
  auto next = Next::kClose;
  if (co_await wire_->open()) next = Next::kGoOn;
  while (next == Next::kGoOn) next = co_await serve_one();
  share_.connections.finish(place_);  // a client that is slow to close keeps no place from others
  co_await wire_->close(next == Next::kCloseUnread);
}

awaitable<Session::Next> Session::serve_one() {
  RequestParser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  log_ = {};
  guest_ = {};
  keep_alive_ = false;
  http_1_0_ = false;
  head_only_ = false;
  answer_begun_ = false;
  auto next = Next::kClose;
  bool exhausted = false;
  try {
    next = co_await receive(parser);
  } catch (const std::bad_alloc&) {
    exhausted = true;
  }
  if (exhausted && !answer_begun_) {
    if (log_.id.empty()) begin_log();
    Reply refusal = exhausted_reply(options_.retry_after_s);
    refusal.close = true;  // where the request ends may be unknown
    next = co_await reply(std::move(refusal));
  }
  body_room_.release();
  if (!log_.id.empty()) log_request();
  if (next == Next::kGoOn) share_.connections.end_request(place_);
  co_return next;
}

void Session::begin_log() {
  log_.begun_us = monotonic_us();
  log_.id = share_.service.new_request_id();
  log_.method = "-";
  log_.route = "other";
}

awaitable<Session::Next> Session::receive(RequestParser& parser) {
  auto head = co_await reader_.read_head(parser);
  if (head.outcome == RequestReader::Outcome::kGone) co_return Next::kClose;
  const auto right = share_.connections.begin_request(place_);
  if (right == ConnectionTable::Right::kNothing) co_return Next::kClose;
  probes_only_ = right == ConnectionTable::Right::kProbes;
  begin_log();
  if (head.outcome == RequestReader::Outcome::kRefused) co_return co_await reply(std::move(head.refusal));
  co_return co_await answer_head(parser);
}

awaitable<Session::Next> Session::answer_head(RequestParser& parser) {
  const Visitor visitor = visitor_of(parser);
  const auto target = parser.get().target();
  keep_alive_ = keeps_alive(parser) && !probes_only_ && !share_.service.draining();
  http_1_0_ = parser.get().version() < 11;
  head_only_ = parser.get().method() == http::verb::head;
  log_.method = std::string(visitor.method.substr(0, kLoggedMethodBytes));
  log_.route = route_label(target);
  const bool good_id = take_request_id(parser);
  if (auto refusal = share_.gatekeeper.refuse(visitor, guest_)) co_return co_await reply(std::move(*refusal));
  log_.key = guest_.key_name;
  std::optional<Reply> early;
  if (visitor.method == "OPTIONS" && !guest_.allowed_origin.empty()) early = preflight_reply(target);
  if (!early && probes_only_ && !is_for_monitoring(log_.route)) early = full_reply(options_);
  if (!early) early = refuse_route(visitor.method, target);
  if (!early) early = refuse_figures(log_.route, guest_.is_operator, share_.service.expose_acceptance());
  if (!early && !good_id) early = refuse_request_id();
  if (!early) early = refuse_content_type(visitor);
  if (!early) early = refuse_content_encoding(visitor);
  if (early) {
    early->close = early->close || !parser.is_done();
    co_return co_await reply(std::move(*early));
  }
  body_room_ = MemoryBudget::Reservation(share_.service.memory());
  if (!reader_.reserve(parser, body_room_)) {
    Reply refusal = no_room_reply(options_.retry_after_s);
    refusal.close = true;
    co_return co_await reply(std::move(refusal));
  }
  if (!parser.is_done() && parser.get()[http::field::expect] == "100-continue") {
    if (!co_await send(kContinue)) co_return unanswered();
    answer_begun_ = false;
  }
  auto body = co_await reader_.read_body(parser, body_room_);
  if (body.outcome == RequestReader::Outcome::kRefused) co_return co_await reply(std::move(body.refusal));
  if (body.outcome == RequestReader::Outcome::kGone) co_return unanswered();
  co_return co_await route(parser);
}

// The client's own X-Request-Id from here on, if it sent a good one. True when there is none or it is good.
bool Session::take_request_id(const RequestParser& parser) {
  const auto given = header(parser.get(), kRequestId);
  const bool good = !given || (is_request_id(*given) && parser.get().count(kRequestId) == 1);
  if (given && good) log_.id = *given;
  return good;
}

// Reading files and tokenising whole texts: slow work, whatever its size.
template <class Work>
awaitable<Session::Next> Session::reply_from_worker(RequestParser& parser, Work work) {
  auto job = [work = std::move(work), body = take_body(parser), after_s = options_.retry_after_s] {
    return guarded_reply([&] { return work(body.bytes); }, after_s);
  };
  auto made = co_await run_while_there(WorkerPool::Lane::kSlow, std::move(job));
  if (!made) co_return left_in_queue();
  co_return co_await reply(std::move(*made));
}

Session::Body Session::take_body(RequestParser& parser) {
  return {std::exchange(parser.get().body(), {}), std::move(body_room_)};
}

// The result of `work`; nothing when the client left before it began.
template <class Work>
awaitable<std::optional<std::invoke_result_t<Work&>>> Session::run_while_there(WorkerPool::Lane lane, Work work) {
  auto has_left = [this, probe_at_us = std::int64_t{0}]() mutable { return client_has_left(probe_at_us); };
  return share_.workers.run(lane, std::move(work), std::move(has_left));
}

// True once the client has left. A client that has only ended its sending is probed, as while an answer is made.
awaitable<bool> Session::client_has_left(std::int64_t& probe_at_us) {
  const PeerState peer = peer_state(wire_->socket().native_handle());
  if (peer != PeerState::kEnded) co_return peer == PeerState::kGone;
  const std::int64_t now_us = monotonic_us();
  if (http_1_0_ || now_us < probe_at_us) co_return false;
  probe_at_us = now_us + std::chrono::microseconds(options_.heartbeat).count();
  const bool sent = co_await send(kContinue);
  answer_begun_ = false;
  co_return !sent;
}

awaitable<Session::Next> Session::route(RequestParser& parser) {
  const auto path = path_of(parser.get().target());
  const Service& service = share_.service;
  const auto drafts = [&service](std::string_view /*body*/) { return service.drafts(); };
  const auto tokenize = [&service](std::string_view body) { return service.tokenize(parse_tokenize(body)); };
  const auto detokenize = [&service](std::string_view body) { return service.detokenize(parse_detokenize(body)); };
  if (parser.get().method() == http::verb::delete_) co_return co_await delete_request(parser.get().target());
  if (parser.get().method() != http::verb::post) {
    if (path == "/v1/drafts") co_return co_await reply_from_worker(parser, drafts);
    co_return co_await reply(plain_reply(service, parser.get().target()));
  }
  const auto entry = share_.quotas.enter(guest_.tenant, monotonic_us());
  if (!entry.stay) co_return co_await reply(quota_reply(entry, options_.retry_after_s));
  if (path == "/v1/chat/completions") co_return co_await generate(Endpoint::kChat, parser);
  if (path == "/v1/completions") co_return co_await generate(Endpoint::kCompletion, parser);
  if (path == "/tokenize") co_return co_await reply_from_worker(parser, tokenize);
  co_return co_await reply_from_worker(parser, detokenize);
}

// A purge waits for the learner's and the ledger's threads, so no thread of ours waits for it.
awaitable<Session::Next> Session::delete_request(std::string_view target) {
  const auto entry = share_.quotas.enter(guest_.tenant, monotonic_us());
  if (!entry.stay) co_return co_await reply(quota_reply(entry, options_.retry_after_s));
  const auto id = request_to_delete(target);
  if (!id) co_return co_await reply(purge_reply({}, options_.retry_after_s));
  const ActiveAnswer active(share_.service);
  const auto waker = std::make_shared<Waker>(wire_->socket().get_executor());
  struct Outcome {
    PurgeResult result;
    std::atomic<bool> known{false};  // a wake may be lost where memory is exhausted
  };
  const auto outcome = std::make_shared<Outcome>();
  bool begun = false;
  Reply refusal = guarded_reply(
      [&] {
        share_.service.purge({*id, guest_.tenant, std::nullopt}, [waker, outcome](PurgeResult made) {
          outcome->result = std::move(made);
          outcome->known = true;
          Waker::notify(waker);
        });
        begun = true;
        return Reply{};
      },
      options_.retry_after_s);
  if (!begun) co_return co_await reply(std::move(refusal));
  while (!outcome->known) co_await waker->wait(options_.heartbeat);
  const PurgeResult& result = outcome->result;
  if (result.error && http_status(*result.error) == 500) {
    log_parts(LogLevel::kError, {"a purge failed: ", result.error->what()});
  }
  co_return co_await reply(purge_reply(result, options_.retry_after_s));
}

awaitable<Session::Next> Session::generate(Endpoint endpoint, RequestParser& parser) {
  auto answer = std::make_shared<Answer>();
  answer->waker = std::make_shared<Waker>(wire_->socket().get_executor());
  const SinkMaker make_sink = [answer, bytes = options_.max_answer_bytes, &memory = share_.service.memory()] {
    return answer->channels.emplace_back(std::make_shared<AnswerChannel>(
        bytes, [waker = answer->waker] { Waker::notify(waker); }, MemoryBudget::Reservation(memory)));
  };
  const CallHeaders headers{header(parser.get(), "X-Slipstream-Topic"), header(parser.get(), "X-Slipstream-Learn")};
  const ActiveAnswer active(share_.service);
  const auto lane = lane_of(parser.get().body().size());
  // Named, for GCC 12 frees a temporary of an awaited call twice.
  auto work = [&service = share_.service, endpoint, body = take_body(parser), headers, make_sink,
               caller = Caller{guest_.tenant, log_.id}] {
    return admit(service, endpoint, body.bytes, headers, caller, make_sink);
  };
  auto admission = co_await run_while_there(lane, std::move(work));
  if (!admission) co_return left_in_queue();
  if (admission->refusal) co_return co_await reply(std::move(*admission->refusal));
  answer->who = std::move(admission->who);
  std::exception_ptr fault;
  auto next = Next::kClose;
  try {
    next = co_await give_answer(answer);
  } catch (const std::exception&) {
    fault = std::current_exception();
  }
  answer->done = true;
  beast::error_code ignored;
  wire_->socket().cancel(ignored);  // ends the watcher's wait; nothing else is under way here
  if (fault) {
    share_.service.cancel(answer->who);
    std::rethrow_exception(fault);
  }
  co_return next;
}

awaitable<Session::Next> Session::give_answer(std::shared_ptr<Answer> answer) {
  answer->choices.resize(answer->channels.size());
  log_.answer = answer->who.id;
  log_.topic = answer->who.topic;
  log_.draft = answer->who.draft;
  asio::co_spawn(
      wire_->socket().get_executor(),
      [self = shared_from_this(), answer]() -> awaitable<void> { co_await self->watch_peer(answer); }, asio::detached);
  // Not as one expression: GCC 12 loses what is thrown in an awaited branch of ?:.
  if (answer->who.stream) co_return co_await stream(*answer);
  co_return co_await collect(*answer);
}

awaitable<Session::Next> Session::collect(Answer& answer) {
  while (true) {
    std::optional<Error> fault;
    for (std::size_t i = 0; i < answer.channels.size(); ++i) {
      auto taken = answer.channels[i]->take();
      gather(answer.who, i, taken, /*kept=*/true, answer.choices[i]);
      answer.room.absorb(std::move(taken.room));
      taken.overflowed |= answer.choices[i].part.text.size() > options_.max_answer_bytes;
      if (taken.finished) log_.add(*taken.finished);
      if (!fault) fault = fault_of(taken);
    }
    if (answer.peer_gone) {
      on_client_gone(answer);
      co_return Next::kClose;
    }
    if (fault) co_return co_await give_up(answer, *fault);
    if (all_finished(answer.choices)) {
      log_answers(answer);
      Reply whole;
      whole.body = whole_answer(answer.who, answer.choices);
      answer.choices.clear();
      answer.room.release();
      co_return co_await reply(std::move(whole));
    }
    if (!co_await probe(answer)) {
      on_client_gone(answer);
      co_return Next::kClose;
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
    if (alive && !answer.peer_gone) alive = co_await send_what_came(answer);
    if (!alive || answer.peer_gone) {
      on_client_gone(answer);
      co_return Next::kClose;
    }
    if (all_finished(answer.choices)) {
      co_return !answer.broken && keep_alive_ && !http_1_0_ ? Next::kGoOn : Next::kClose;
    }
    if (answer.broken) {
      share_.service.cancel(answer.who);
      co_return Next::kClose;
    }
    if (co_await answer.waker->wait(options_.heartbeat)) {
      alive = co_await probe(answer);
    } else {
      alive = co_await send_heartbeat(answer);
    }
  }
}

// Status, headers and the opening events, as late as the first byte: until then an error is still a status.
std::string Session::stream_head(const Answer& answer) {
  Reply head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  std::string opening = opening_events(answer.who);
  if (!http_1_0_ && !opening.empty()) opening = chunk_text(opening);
  add_own_headers(head);
  log_.status = head.status;
  share_.service.metrics().on_http(log_.route, head.status);
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
  MemoryBudget::Reservation room;  // until it is sent
  bool came = false;
  for (std::size_t i = 0; i < answer.channels.size() && !answer.broken; ++i) {
    auto taken = answer.channels[i]->take();
    if (taken.empty()) continue;
    room.absorb(std::move(taken.room));
    gather(answer.who, i, taken, /*kept=*/false, answer.choices[i]);
    if (taken.finished) log_.add(*taken.finished);
    const auto fault = fault_of(taken);
    answer.broken = fault.has_value();
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

// Waits for the socket to become readable: a reset means that nobody waits for the answer, an end of file that perhaps
// nobody does. Bytes of a next request say nothing, so then the peer is asked now and again.
awaitable<void> Session::watch_peer(std::shared_ptr<Answer> answer) {
  using Socket = asio::ip::tcp::socket;
  Socket& socket = wire_->socket();
  asio::steady_timer pause(socket.get_executor());
  while (!answer->done && socket.is_open()) {
    auto [fault] = co_await socket.async_wait(answer->peer_ended ? Socket::wait_error : Socket::wait_read, kTuple);
    if (answer->done || fault == asio::error::operation_aborted) co_return;
    const PeerState peer = fault ? PeerState::kGone : peer_state(socket.native_handle());
    if (peer == PeerState::kGone) {
      answer->peer_gone = true;
      Waker::notify(answer->waker);
      share_.service.cancel(answer->who);
      co_return;
    }
    if (peer == PeerState::kEnded && !std::exchange(answer->peer_ended, true)) {
      Waker::notify(answer->waker);
      continue;
    }
    pause.expires_after(kPeerCheck);
    co_await pause.async_wait(kTuple);
  }
}

// Of a client that has ended its sending, only bytes tell whether it still reads (RFC 9112, 9.6): to one that has
// closed they come back as a reset, which the watcher sees. Interim answers are skipped by every client (RFC
// 9110, 15.2), but HTTP/1.0 has none. False when the write failed.
awaitable<bool> Session::probe(Answer& answer) {
  const std::int64_t now_us = monotonic_us();
  if (!answer.peer_ended || now_us < answer.probe_at_us) co_return true;
  answer.probe_at_us = now_us + std::chrono::microseconds(options_.heartbeat).count();
  if (answer.who.stream && (answer.head_sent || http_1_0_)) co_return co_await send_heartbeat(answer);
  if (http_1_0_) co_return true;
  co_return co_await send(kContinue);
}

void Session::on_client_gone(const Answer& answer) {
  share_.service.cancel(answer.who);
  share_.service.metrics().on_client_gone();
  if (log_.status == 0) unanswered();
  log_.client_gone = true;
}

// The client left before any of the answer was sent.
Session::Next Session::unanswered() {
  log_.status = kClientClosed;
  log_.client_gone = true;
  share_.service.metrics().on_http(log_.route, log_.status);
  return Next::kClose;
}

Session::Next Session::left_in_queue() {
  share_.service.metrics().on_client_gone();
  return unanswered();
}

// What every answer carries whatever it says.
void Session::add_own_headers(Reply& reply) const {
  reply.headers.emplace_back(kRequestId, log_.id);
  if (guest_.allowed_origin.empty()) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", guest_.allowed_origin);
  reply.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  reply.headers.emplace_back("Vary", "Origin");
}

void Session::log_request() const noexcept {
  try {
    const std::string line = request_line(log_, monotonic_us());
    is_routine(log_) ? log_debug(line) : log_info(line);
  } catch (const std::exception&) {  // no memory for the line
  }
}

awaitable<Session::Next> Session::reply(Reply reply) {
  MemoryBudget::Reservation room(share_.service.memory());
  if (!room.resize(reply.body.capacity()) && reply.body.size() > kAlwaysSentBytes) {
    reply = no_room_reply(options_.retry_after_s);
  }
  const bool keep = keep_alive_ && !reply.close;
  log_.status = reply.status;
  add_own_headers(reply);
  std::string bytes = head_text(reply, {keep, /*chunked=*/false, now_text()});
  if (head_only_) reply.body.clear();
  if (reply.body.size() <= kWriteBytes) bytes += std::exchange(reply.body, {});  // one write; a large one is not copied
  share_.service.metrics().on_http(log_.route, reply.status);
  bool sent = co_await send(std::move(bytes));
  if (sent && !reply.body.empty()) sent = co_await send(std::move(reply.body));
  if (!sent) co_return Next::kClose;
  if (keep) co_return Next::kGoOn;
  co_return reply.close ? Next::kCloseUnread : Next::kClose;
}

// Each piece has the whole write timeout: slow clients are served, stuck ones are not.
awaitable<bool> Session::send(std::string bytes) {
  answer_begun_ = true;
  for (std::size_t sent = 0; sent < bytes.size();) {
    wire_->expires_after(options_.write_timeout);
    const std::size_t piece = std::min(kWriteBytes, bytes.size() - sent);
    const std::size_t n = co_await wire_->write_some(asio::buffer(bytes.data() + sent, piece));
    if (n == 0) co_return false;
    sent += n;
  }
  co_return true;
}

std::string Session::now_text() const {
  return http_date(static_cast<long>(wall_us() / 1'000'000));
}

}  // namespace slip
