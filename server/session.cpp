// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "server/answer_delivery.h"
#include "server/http/request_id.h"
#include "server/http/waker.h"
#include "server/openai/routes.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;

constexpr std::size_t kLoggedMethodBytes = 16;

// A header's value; repeated headers are joined as a list, which proxies treat as equivalent (RFC 9110, 5.3).
std::optional<std::string> header(const http::request<http::string_body>& request, std::string_view name) {
  const auto [first, last] = request.equal_range(name);
  if (first == last) return std::nullopt;
  std::string list(first->value());
  for (auto next = std::next(first); next != last; ++next) list.append(", ").append(next->value());
  return list;
}

// Tokenizing 32 KiB takes about 3 ms on one core.
WorkerPool::Lane lane_of(std::size_t body_bytes) {
  constexpr std::size_t kQuickBytes = std::size_t{32} << 10;
  return body_bytes <= kQuickBytes ? WorkerPool::Lane::kQuick : WorkerPool::Lane::kSlow;
}

RequestMetadata metadata_of(const RequestParser& parser) {
  const auto& request = parser.get();
  const auto value = [&](http::field name) -> std::optional<std::string_view> {
    const auto found = request.find(name);
    if (found == request.end()) return std::nullopt;
    return std::string_view(found->value().data(), found->value().size());
  };
  RequestMetadata metadata;
  metadata.method = {request.method_string().data(), request.method_string().size()};
  metadata.path = path_of(std::string_view(request.target().data(), request.target().size()));
  metadata.host = value(http::field::host);
  metadata.origin = value(http::field::origin);
  metadata.authorization = value(http::field::authorization);
  metadata.content_type = value(http::field::content_type);
  metadata.content_encoding = value(http::field::content_encoding);
  return metadata;
}

// Cancels the requests of an admission that no session reads: a session may end for lack of memory while a worker
// admits its call. Once the service drains, the engine ends its requests by itself, and may be gone.
struct AbandonAdmission {
  void operator()(Admission* admission) const {
    const std::unique_ptr<Admission> owned(admission);
    if (!service->draining()) service->cancel(owned->who);
  }
  Service* service;
};
using OwnedAdmission = std::unique_ptr<Admission, AbandonAdmission>;

}  // namespace

Session::Session(std::unique_ptr<Wire> wire, SessionShare share)
    : wire_(std::move(wire)),
      share_(share),
      options_(share.service.options()),
      reader_(*wire_, share.service.options()),
      responder_(*wire_, share.service) {}

void Session::drop() {
  asio::post(wire_->socket().get_executor(), [self = shared_from_this()] { self->shut_down(); });
}

void Session::shut_down() {
  beast::error_code ignored;
  wire_->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

awaitable<void> Session::run(ConnectionTable::Id place) {
  const auto self = shared_from_this();
  place_ = place;
  wire_->expires_after(options_.header_timeout);
  auto next = Next::kClose;
  if (co_await wire_->open()) next = Next::kGoOn;
  while (next == Next::kGoOn) {
    responder_.begin_exchange();
    bool exhausted = false;
    try {
      next = co_await serve_one();
    } catch (const std::bad_alloc&) {
      exhausted = true;
    }
    if (exhausted) next = co_await say_exhausted();
    body_room_.release();
    if (responder_.log_begun()) responder_.log_request();
    if (next == Next::kGoOn) share_.connections.end_request(place_);
  }
  share_.connections.finish(place_);  // a client that is slow to close must not block others
  co_await wire_->close(next == Next::kCloseUnread);
}

awaitable<Session::Next> Session::say_exhausted() {
  if (responder_.exchange().answer_begun) co_return Next::kClose;
  if (!responder_.log_begun()) responder_.begin_log();
  Reply refusal = exhausted_reply(options_.retry_after_s);
  refusal.close = true;  // the end of the request may be unknown
  co_return co_await responder_.reply(std::move(refusal));
}

// Reads the next request and answers it.
awaitable<Session::Next> Session::serve_one() {
  RequestParser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  const auto ended = co_await receive(parser);
  if (ended) co_return *ended;
  const auto path = path_of(parser.get().target());
  const Service& service = share_.service;
  const auto drafts = [&service](std::string_view /*body*/) { return service.drafts(); };
  const auto tokenize = [&service](std::string_view body) { return service.tokenize(parse_tokenize(body)); };
  const auto detokenize = [&service](std::string_view body) { return service.detokenize(parse_detokenize(body)); };
  if (parser.get().method() == http::verb::delete_) co_return co_await delete_request(parser.get().target());
  if (parser.get().method() != http::verb::post) {
    if (path == "/v1/drafts") co_return co_await reply_from_worker(parser, drafts);
    co_return co_await responder_.reply(plain_reply(service, parser.get().target()));
  }
  const auto entry = share_.quotas.enter(responder_.exchange().principal.tenant, monotonic_us());
  if (!entry.stay) co_return co_await responder_.reply(quota_reply(entry, options_.retry_after_s));
  if (path == "/v1/chat/completions") co_return co_await generate(Endpoint::kChat, parser);
  if (path == "/v1/completions") co_return co_await generate(Endpoint::kCompletion, parser);
  if (path == "/tokenize") co_return co_await reply_from_worker(parser, tokenize);
  co_return co_await reply_from_worker(parser, detokenize);
}

// Reads a request. Empty: it is there as a whole. Otherwise it was refused or its client left, and the result says what
// comes next.
awaitable<std::optional<Session::Next>> Session::receive(RequestParser& parser) {
  auto head = co_await reader_.read_head(parser);
  if (head.outcome == RequestReader::Outcome::kGone) co_return Next::kClose;
  const auto right = share_.connections.begin_request(place_);
  if (right == ConnectionTable::Right::kNothing) co_return Next::kClose;
  probes_only_ = right == ConnectionTable::Right::kProbes;
  responder_.begin_log();
  if (head.outcome == RequestReader::Outcome::kRefused) co_return co_await responder_.reply(std::move(head.refusal));
  auto refusal = refuse_head(parser);
  if (refusal) co_return co_await responder_.reply(std::move(*refusal));
  body_room_ = MemoryBudget::Reservation(share_.service.memory());
  if (!reader_.reserve(parser, body_room_)) {
    Reply no_room = no_room_reply(options_.retry_after_s);
    no_room.close = true;
    co_return co_await responder_.reply(std::move(no_room));
  }
  // RFC 9110, 10.1.1: in any case of letters.
  if (!parser.is_done() && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    if (!co_await responder_.send_continue()) co_return responder_.unanswered();
  }
  auto body = co_await reader_.read_body(parser, body_room_);
  if (body.outcome == RequestReader::Outcome::kRefused) co_return co_await responder_.reply(std::move(body.refusal));
  if (body.outcome == RequestReader::Outcome::kGone) co_return responder_.unanswered();
  co_return std::nullopt;
}

// Takes from the head what the answer and the log need. The reply, if the head alone decides it.
std::optional<Reply> Session::refuse_head(const RequestParser& parser) {
  const RequestMetadata metadata = metadata_of(parser);
  const auto target = parser.get().target();
  Exchange& exchange = responder_.exchange();
  Principal& principal = exchange.principal;
  RequestLog& log = exchange.log;
  exchange.keep_alive = keeps_alive(parser) && !probes_only_ && !share_.service.draining();
  exchange.http_1_0 = parser.get().version() < 11;
  exchange.head_only = parser.get().method() == http::verb::head;
  log.method = std::string(metadata.method.substr(0, kLoggedMethodBytes));
  log.route = route_label(target);
  const bool good_id = take_request_id(parser);
  if (auto refusal = share_.gatekeeper.refuse(metadata, principal)) return refusal;
  log.key = principal.key_name;
  std::optional<Reply> early;
  if (metadata.method == "OPTIONS" && !principal.allowed_origin.empty()) early = preflight_reply(target);
  if (!early && probes_only_ && !is_for_monitoring(log.route)) early = full_reply(options_);
  if (!early) early = refuse_route(metadata.method, target);
  if (!early) early = refuse_figures(log.route, principal.is_operator, share_.service.expose_acceptance());
  if (!early && !good_id) early = refuse_request_id();
  if (!early) early = refuse_content_type(metadata);
  if (!early) early = refuse_content_encoding(metadata);
  if (early) early->close = early->close || !parser.is_done();
  return early;
}

// Uses the client's X-Request-Id from here on. False if it is invalid.
bool Session::take_request_id(const RequestParser& parser) {
  const auto given = header(parser.get(), kRequestIdHeader);
  const bool good = !given || (is_request_id(*given) && parser.get().count(kRequestIdHeader) == 1);
  if (given && good) responder_.exchange().log.id = *given;
  return good;
}

// Reads files or tokenizes whole texts: slow work of any size.
template <class Work>
awaitable<Session::Next> Session::reply_from_worker(RequestParser& parser, Work work) {
  auto job = [work = std::move(work), body = take_body(parser), after_s = options_.retry_after_s] {
    return guarded_reply([&] { return work(body.bytes); }, after_s);
  };
  PeerWatch peer(wire_->socket(), options_.heartbeat);
  const auto has_left = left_check(peer);
  auto made = co_await share_.workers.run(WorkerPool::Lane::kSlow, std::move(job), has_left);
  if (!made) co_return left_in_queue();
  co_return co_await responder_.reply(std::move(*made));
}

Session::Body Session::take_body(RequestParser& parser) {
  return {std::exchange(parser.get().body(), {}), std::move(body_room_)};
}

Session::Next Session::left_in_queue() {
  share_.service.metrics().on_client_gone();
  return responder_.unanswered();
}

// A purge waits for the learner's and the ledger's threads, so it must not block a thread here.
awaitable<Session::Next> Session::delete_request(std::string_view target) {
  const auto entry = share_.quotas.enter(responder_.exchange().principal.tenant, monotonic_us());
  if (!entry.stay) co_return co_await responder_.reply(quota_reply(entry, options_.retry_after_s));
  const auto id = request_to_delete(target);
  if (!id) co_return co_await responder_.reply(purge_reply({}, options_.retry_after_s));
  const ActiveAnswer active(share_.service);
  const auto waker = std::make_shared<Waker>(wire_->socket().get_executor());
  struct Outcome {
    PurgeResult result;
    std::atomic<bool> known{false};  // checked too, since a wake-up may be lost for lack of memory
  };
  const auto outcome = std::make_shared<Outcome>();
  std::optional<Reply> refusal;
  try {
    share_.service.purge({*id, responder_.exchange().principal.tenant, std::nullopt},
                         [waker, outcome](PurgeResult made) {
                           outcome->result = std::move(made);
                           outcome->known = true;
                           Waker::notify(waker);
                         });
  } catch (...) {
    refusal = failure_reply(options_.retry_after_s);
  }
  if (refusal) co_return co_await responder_.reply(std::move(*refusal));
  while (!outcome->known) co_await waker->wait(options_.heartbeat);
  const PurgeResult& result = outcome->result;
  if (result.error && http_status(*result.error) == 500) {
    log_parts(LogLevel::kError, {"a purge failed: ", result.error->what()});
  }
  co_return co_await responder_.reply(purge_reply(result, options_.retry_after_s));
}

awaitable<Session::Next> Session::generate(Endpoint endpoint, RequestParser& parser) {
  const auto delivery = std::make_shared<AnswerDelivery>(*wire_, responder_, share_.service);
  const CallHeaders headers{header(parser.get(), "X-Slipstream-Topic"), header(parser.get(), "X-Slipstream-Learn"),
                            header(parser.get(), kSloHeader), responder_.exchange().principal.may_ask_slo,
                            responder_.exchange().principal.slo_tiers};
  const ActiveAnswer active(share_.service);
  const auto lane = lane_of(parser.get().body().size());
  const Exchange& exchange = responder_.exchange();
  auto body = std::make_shared<const Body>(take_body(parser));
  const auto work_for = [&](NewSchemas new_schemas) {
    return [&service = share_.service, endpoint, body, headers, make_sink = delivery->sink_maker(), new_schemas,
            caller = Caller{exchange.principal.tenant, exchange.log.id}] {
      OwnedAdmission owned(new Admission, AbandonAdmission{&service});  // first, since it may fail
      *owned = service.admit(endpoint, body->bytes, headers, caller, make_sink, new_schemas);
      return owned;
    };
  };
  // Named objects: GCC 12 frees a temporary of an awaited call twice.
  auto work = work_for(lane == WorkerPool::Lane::kQuick ? NewSchemas::kReturn : NewSchemas::kCompile);
  const auto has_left = left_check(delivery->peer());
  auto owned = co_await share_.workers.run(lane, std::move(work), has_left);
  if (owned && (*owned)->must_compile) {
    auto with_compiling = work_for(NewSchemas::kCompile);
    owned = co_await share_.workers.run(WorkerPool::Lane::kCompiling, std::move(with_compiling), has_left);
  }
  body.reset();
  if (!owned) co_return left_in_queue();
  Admission& admission = **owned;
  if (admission.refusal) co_return co_await responder_.reply(std::move(*admission.refusal));
  std::shared_ptr<void> self = shared_from_this();
  auto delivered = delivery->run(std::move(admission.who), std::move(self));
  co_return co_await std::move(delivered);
}

}  // namespace slip
