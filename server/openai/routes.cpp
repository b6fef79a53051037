// SPDX-License-Identifier: Apache-2.0
#include "server/openai/routes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/percent_decoding.h"
#include "server/http/gatekeeper.h"
#include "server/http/request_id.h"
#include "server/openai/absent_routes.h"
#include "server/openai/answer_logprobs.h"
#include "server/openai/openapi.h"

namespace slip {
namespace {

constexpr std::string_view kMetrics = "/metrics";
constexpr std::array kRoutes = {
    RouteEntry{"/v1/chat/completions", "POST"},
    RouteEntry{"/v1/completions", "POST"},
    RouteEntry{"/v1/models", "GET"},
    RouteEntry{"/v1/models/{model}", "GET"},
    RouteEntry{"/v1/requests/{id}", "DELETE"},
    RouteEntry{"/v1/drafts", "GET"},
    RouteEntry{"/v1/topics", "GET"},
    RouteEntry{"/tokenize", "POST"},
    RouteEntry{"/detokenize", "POST"},
    RouteEntry{"/version", "GET"},
    RouteEntry{"/openapi.json", "GET"},
    RouteEntry{"/healthz", "GET"},
    RouteEntry{"/readyz", "GET"},
    RouteEntry{"/health", "GET"},
    RouteEntry{"/ping", "GET"},
    RouteEntry{kMetrics, "GET"},
};
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kRequestPrefix = "/v1/requests/";

const RouteEntry* find_route(std::string_view path) {
  if (path.size() > kModelPrefix.size() && path.starts_with(kModelPrefix)) path = "/v1/models/{model}";
  if (path.size() > kRequestPrefix.size() && path.starts_with(kRequestPrefix)) path = "/v1/requests/{id}";
  const auto found =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&](const RouteEntry& one) { return one.path == path; });
  return found == kRoutes.end() ? nullptr : &*found;
}

std::string methods_of(const RouteEntry& route) {
  return route.method == "GET" ? "GET, HEAD" : std::string(route.method);
}

std::string route_list() {
  std::string list;
  for (const RouteEntry& route : kRoutes) {
    list += (list.empty() ? "" : &route == &kRoutes.back() ? " and " : ", ") + std::string(route.path);
  }
  return list;
}

// "org%2Fname" → "org/name"; text with an invalid escape is kept. The result is only compared with names, never used as
// a path.
std::string decoded(std::string_view text) {
  return percent_decoded(text).value_or(std::string(text));
}

Reply status_reply(const char* status) {
  return json_reply(std::string("{\"status\":\"") + status + "\"}");
}

Reply readiness(const Service& service, const char* yes) {
  const auto reason = service.not_ready();
  if (!reason) return status_reply(yes);
  return error_reply(Error(ErrorCode::kUnavailable, *reason), service.options().retry_after_s);
}

}  // namespace

std::string_view path_of(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

std::string route_label(std::string_view target) {
  const RouteEntry* route = find_route(path_of(target));
  return route == nullptr ? "other" : std::string(route->path);
}

std::span<const RouteEntry> routes() {
  return kRoutes;
}

std::optional<Reply> refuse_route(std::string_view method, std::string_view target) {
  const RouteEntry* route = find_route(path_of(target));
  if (route == nullptr) {
    const auto [why, comes_later] = absent_route(path_of(target)).value_or(AbsentRoute{"no such route", false});
    return error_reply(comes_later ? 400 : 404,
                       {.message = why + "; there are " + route_list(), .code = "unknown_url"});
  }
  if (route->method == method || (route->method == "GET" && method == "HEAD")) return std::nullopt;
  Reply refusal = error_reply(405, {.message = std::string(route->path) + " takes " + methods_of(*route) + " only",
                                    .code = "method_not_allowed"});
  refusal.headers.emplace_back("Allow", methods_of(*route));
  return refusal;
}

bool is_for_monitoring(std::string_view route) {
  return is_probe(route) || route == kMetrics;
}

Reply full_reply(const ServerOptions& options) {
  const Error full(ErrorCode::kUnavailable, "all " + std::to_string(options.max_connections) + " connections are busy");
  return error_reply(full, options.retry_after_s);
}

std::optional<Reply> refuse_figures(std::string_view route, bool is_operator, ExposeAcceptance expose) {
  if (route != kMetrics || is_operator || expose == ExposeAcceptance::kAll) return std::nullopt;
  return error_reply(403,
                     {.message = "with several API keys /metrics is for a key whose line in server.api_keys_file says "
                                 "operator=true",
                      .code = "operator_only"});
}

Reply preflight_reply(std::string_view target) {
  const RouteEntry* route = find_route(path_of(target));
  if (route == nullptr) return *refuse_route("OPTIONS", target);
  Reply reply;
  reply.status = 204;
  reply.headers = {{"Access-Control-Allow-Methods", methods_of(*route)},
                   // All headers may be sent; in the Fetch standard * does not include Authorization.
                   {"Access-Control-Allow-Headers", "*, Authorization"},
                   {"Access-Control-Max-Age", "600"}};
  return reply;
}

Reply plain_reply(const Service& service, std::string_view target) {
  const std::string_view path = path_of(target);
  if (path == "/healthz") return status_reply("ok");
  if (path == "/readyz") return readiness(service, "ready");
  // Clients of llama.cpp's and vLLM's /health, or SageMaker's /ping, wait for a server that answers requests.
  if (path == "/health" || path == "/ping") return readiness(service, "ok");
  if (path == "/v1/models") return service.models();
  if (path == "/v1/topics") return service.topics();
  if (path == "/version") return json_reply("{\"version\":\"" SLIPSTREAM_VERSION "\"}");
  if (path == "/openapi.json") return json_reply(std::string(openapi_document()));
  if (path.starts_with(kModelPrefix)) {
    const std::string name = decoded(path.substr(kModelPrefix.size()));
    return guarded_reply([&] { return service.model_named(name); }, service.options().retry_after_s);
  }
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  service.metrics().set_buffered_bytes(service.memory().used());
  reply.body = service.metrics().text();
  return reply;
}

std::optional<std::string> request_to_delete(std::string_view target) {
  std::string id = decoded(path_of(target).substr(kRequestPrefix.size()));
  if (!is_request_id(id)) return std::nullopt;
  return id;
}

Reply purge_reply(const PurgeResult& result, int retry_after_s) {
  if (result.error && result.error->code() == ErrorCode::kIo) {
    return error_reply(Error(ErrorCode::kUnavailable, "the request cannot be deleted now: " + result.error->message(),
                             result.error->hint()),
                       retry_after_s);
  }
  if (result.error) return error_reply(*result.error, retry_after_s);
  if (result.records + result.rows == 0) {
    return error_reply(
        404,
        {.message = "nothing is kept of such a request by this API key; delete one that still runs once it has ended",
         .param = "id",
         .code = "request_not_found"});
  }
  Reply reply;
  reply.status = 204;
  return reply;
}

Reply refuse_request_id() {
  return error_reply(400, {.message = "X-Request-Id must be sent once, as 1 to 128 of A-Z a-z 0-9 . _ : / + = - that "
                                      "begin with a letter or digit",
                           .param = "X-Request-Id"});
}

Reply quota_reply(const KeyQuotas::Entry& entry, int retry_after_s) {
  Error over(ErrorCode::kOverloaded, "this API key may make " + entry.limit);
  const auto wait = std::max<std::int64_t>(entry.retry_after_s, retry_after_s);
  Reply reply = error_reply(over, static_cast<int>(wait));
  ErrorBody body = error_body(over);
  body.code = "rate_limit_exceeded";
  reply.body = error_json(body);
  return reply;
}

std::optional<Error> fault_of(const RequestSummary& summary) {
  if (summary.reason == StopReason::kFailed) {
    return summary.error.value_or(Error(ErrorCode::kInternal, "the request failed"));
  }
  if (summary.reason == StopReason::kCancelled) {
    return Error(ErrorCode::kUnavailable, "the request was cancelled: the server is shutting down");
  }
  return std::nullopt;
}

std::optional<Error> fault_of(const AnswerChannel::Taken& taken, bool streamed) {
  if (taken.no_memory) return Error(ErrorCode::kUnavailable, "the server has no memory for this answer");
  if (taken.overflowed) {
    return Error(ErrorCode::kInvalidArgument, "the answer has more unsent bytes than server.max_answer_bytes allows",
                 streamed ? "read the stream faster, or ask for fewer choices or logprobs"
                          : "stream it, or ask for fewer tokens, choices or logprobs");
  }
  return taken.finished ? fault_of(*taken.finished) : std::nullopt;
}

void gather(const AnswerIdentity& who, std::size_t index, AnswerChannel::Taken& taken, bool kept, Choice& choice) {
  if (taken.finished) choice.finished = taken.finished;
  choice.n_tokens += taken.n_tokens;
  if (kept) {
    choice.part.text += taken.part.text;
    const auto append = [](const auto& more, auto& to) { to.insert(to.end(), more.begin(), more.end()); };
    append(taken.part.logprobs, choice.part.logprobs);
    append(taken.part.prompt_logprobs, choice.part.prompt_logprobs);
    return;
  }
  taken.part.begins = choice.part.begins;
  choice.part.begins = place_behind(who, index, taken.part);
}

std::string stream_text(const AnswerIdentity& who, std::size_t choice, const AnswerChannel::Taken& taken,
                        std::span<const Choice> choices) {
  if (taken.overflowed) return error_event(*fault_of(taken, /*streamed=*/true));
  std::string events;
  const AnswerPart& part = taken.part;
  if (!part.text.empty() || !part.logprobs.empty() || !part.prompt_logprobs.empty())
    events = delta_event(who, choice, part, choices[choice].n_tokens);
  if (!taken.finished) return events;
  if (const auto fault = fault_of(*taken.finished)) return events + error_event(*fault);
  events += closing_events(who, choice, choices);
  return all_finished(choices) ? events + std::string(kDoneEvent) : events;
}

}  // namespace slip
