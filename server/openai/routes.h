// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/error.h"
#include "server/http/key_quotas.h"
#include "server/openai/service.h"

namespace slip {

// The parts of a session that need no socket.

// The path without the query and trailing slashes; never decoded, so %2e stays %2e.
std::string_view path_of(std::string_view target);
std::string route_label(std::string_view target);  // one of our routes, or "other": bounded for metrics
// 404, or 405 with Allow; nullopt when the route accepts the method. GET includes HEAD.
std::optional<Reply> refuse_route(std::string_view method, std::string_view target);
bool is_for_monitoring(std::string_view route);  // a probe or /metrics; `route` from route_label()
Reply full_reply(const ServerOptions& options);  // 503: only connections reserved for probes are left
// 403 for /metrics when the sender is not an operator and `expose` is not kAll. Its counts show by topic and draft what
// all keys' requests had accepted (docs/security.md, S14). `route` from route_label().
std::optional<Reply> refuse_figures(std::string_view route, bool is_operator, ExposeAcceptance expose);
// The answer to a browser's preflight request. REQUIRES: the origin is listed.
Reply preflight_reply(std::string_view target);
// The answers of routes that need no file access. REQUIRES: refuse_route() accepted it.
Reply plain_reply(const Service& service, std::string_view target);

// The id in the path of DELETE /v1/requests/{id}; nullopt if it is not valid. REQUIRES: refuse_route() accepted it.
std::optional<std::string> request_to_delete(std::string_view target);
// 204; 404 when nothing was deleted; or the error. An unusable file gives a 503 with the reason: the purge can be
// repeated once the ledger is unlocked, the directory is back or the disk has room.
Reply purge_reply(const PurgeResult& result, int retry_after_s);

// Method and path of every route, with "{model}" or "{id}" for a name; /openapi.json must describe them all.
struct RouteEntry {
  std::string_view path, method;
};
std::span<const RouteEntry> routes();

Reply refuse_request_id();  // 400: it has invalid characters or length
// 429 with Retry-After for a key over its limits. REQUIRES: entry.stay is empty.
Reply quota_reply(const KeyQuotas::Entry& entry, int retry_after_s);

// Counts an answer in progress; draining waits for it.
class ActiveAnswer {
 public:
  explicit ActiveAnswer(Service& service) : service_(service) { ++service_.n_active; }
  ~ActiveAnswer() { --service_.n_active; }
  ActiveAnswer(const ActiveAnswer&) = delete;
  ActiveAnswer& operator=(const ActiveAnswer&) = delete;

 private:
  Service& service_;
};

// The error of a finished request without a valid answer; nullopt otherwise.
std::optional<Error> fault_of(const RequestSummary& summary);
// The same for output taken from a channel, which may have overflowed. `streamed` selects the hint for that.
std::optional<Error> fault_of(const AnswerChannel::Taken& taken, bool streamed);
// Adds taken output to the choice `index`; its text and log probabilities only if `kept`.
void gather(const AnswerIdentity& who, std::size_t index, AnswerChannel::Taken& taken, bool kept, Choice& choice);
// The events for one choice's taken output, after gather(); after the last choice's end, everything up to [DONE].
std::string stream_text(const AnswerIdentity& who, std::size_t choice, const AnswerChannel::Taken& taken,
                        std::span<const Choice> choices);

template <class Make>
Reply guarded_reply(Make make, int retry_after_s) {
  try {
    return make();
  } catch (...) {
    return failure_reply(retry_after_s);
  }
}

}  // namespace slip
