// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace slip {
namespace {

struct KnownRoute {
  std::string_view path, method;
};
constexpr std::array kRoutes = {
    KnownRoute{"/v1/chat/completions", "POST"},
    KnownRoute{"/v1/completions", "POST"},
    KnownRoute{"/v1/models", "GET"},
    KnownRoute{"/v1/drafts", "GET"},
    KnownRoute{"/v1/topics", "GET"},
    KnownRoute{"/healthz", "GET"},
    KnownRoute{"/readyz", "GET"},
    KnownRoute{"/metrics", "GET"},
};

const KnownRoute* find_route(std::string_view path) {
  const auto found =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&](const KnownRoute& one) { return one.path == path; });
  return found == kRoutes.end() ? nullptr : &*found;
}

Reply status_reply(const char* status) {
  Reply reply;
  reply.body = std::string("{\"status\":\"") + status + "\"}";
  return reply;
}

Reply readiness(const Service& service) {
  const auto reason = service.not_ready();
  if (!reason) return status_reply("ready");
  return error_reply(Error(ErrorCode::kUnavailable, *reason), service.options().retry_after_s);
}

}  // namespace

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

std::string route_label(std::string_view target) {
  const KnownRoute* route = find_route(path_of(target));
  return route == nullptr ? "other" : std::string(route->path);
}

std::optional<Reply> refuse_route(std::string_view method, std::string_view target) {
  const KnownRoute* route = find_route(path_of(target));
  if (route == nullptr) {
    return error_reply(404, {.message = "no such route; there are /v1/chat/completions, /v1/completions, /v1/models, "
                                        "/v1/drafts, /v1/topics, /healthz, /readyz and /metrics",
                             .code = "unknown_url"});
  }
  if (route->method == method) return std::nullopt;
  Reply refusal =
      error_reply(405, {.message = std::string(route->path) + " takes " + std::string(route->method) + " only",
                        .code = "method_not_allowed"});
  refusal.headers.emplace_back("Allow", std::string(route->method));
  return refusal;
}

Reply plain_reply(const Service& service, std::string_view path) {
  if (path == "/healthz") return status_reply("ok");
  if (path == "/readyz") return readiness(service);
  if (path == "/v1/models") return service.models();
  if (path == "/v1/topics") return service.topics();
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = service.metrics().text();
  return reply;
}

Admission admit(Service& service, Endpoint endpoint, std::string_view body, const CallHeaders& headers, TenantId tenant,
                const SinkMaker& make_sink) {
  Admission admission;
  bool admitted = false;
  Reply refusal = guarded_reply(
      [&] {
        admission.who = service.generate(parse_request(endpoint, body, headers), tenant, make_sink);
        admitted = true;
        return Reply{};
      },
      service.options().retry_after_s);
  if (!admitted) admission.refusal = std::move(refusal);
  return admission;
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

void gather(const AnswerIdentity& who, AnswerChannel::Taken& taken, bool kept, Choice& choice) {
  if (taken.finished) choice.finished = taken.finished;
  if (kept) {
    choice.part.text += taken.part.text;
    choice.part.logprobs.insert(choice.part.logprobs.end(), taken.part.logprobs.begin(), taken.part.logprobs.end());
    return;
  }
  taken.part.text_offset = choice.part.text_offset;
  choice.part.text_offset += n_characters(who, taken.part);
}

std::string stream_text(const AnswerIdentity& who, std::size_t choice, const AnswerChannel::Taken& taken,
                        std::span<const Choice> choices) {
  if (taken.overflowed) return error_event(Error(ErrorCode::kInternal, "the answer outgrew its buffer"));
  std::string events;
  if (!taken.part.text.empty() || !taken.part.logprobs.empty()) events = delta_event(who, choice, taken.part);
  if (!taken.finished) return events;
  if (const auto fault = fault_of(*taken.finished)) return events + error_event(*fault);
  events += closing_events(who, choice, choices);
  return all_finished(choices) ? events + std::string(kDoneEvent) : events;
}

}  // namespace slip
