// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/log.h"
#include "server/http/key_quotas.h"
#include "server/openai/service.h"

namespace slip {

// What the session does that needs no socket.

// Without the query and the slashes at its end; never decoded, so %2e stays %2e.
std::string_view path_of(std::string_view target);
std::string route_label(std::string_view target);  // one of our routes, or "other": bounded for metrics
// 404, or 405 with Allow; nullopt when the route takes the method. A GET takes HEAD too.
std::optional<Reply> refuse_route(std::string_view method, std::string_view target);
bool is_for_monitoring(std::string_view route);  // a probe or /metrics; `route` as route_label() says it
Reply full_reply(const ServerOptions& options);  // 503: all connections but those kept for probes are taken
// 403 for /metrics, which counts what every key's requests had accepted by topic and draft (S14), when the caller is
// no operator and `expose` is not kAll. `route` as route_label() says it.
std::optional<Reply> refuse_figures(std::string_view route, bool is_operator, ExposeAcceptance expose);
// What a browser asks before it sends a listed origin's request. REQUIRES: the origin is listed.
Reply preflight_reply(std::string_view target);
// The routes that answer from memory. REQUIRES: refuse_route() let it pass.
Reply plain_reply(const Service& service, std::string_view target);

// What DELETE /v1/requests/{id} names; nullopt when it is no id. REQUIRES: refuse_route() let it pass.
std::optional<std::string> request_to_delete(std::string_view target);
// 204, or 404 when there was nothing, or the error. A file that cannot be used is a 503 that says why: the purge can be
// done once the ledger is unlocked, the directory is back or the disk has room.
Reply purge_reply(const PurgeResult& result, int retry_after_s);

// Method and path of every route, "{model}" or "{id}" standing for a name: what /openapi.json must describe.
struct RouteEntry {
  std::string_view path, method;
};
std::span<const RouteEntry> routes();

Reply refuse_request_id();  // 400: it is not one word of the right letters
// 429 with Retry-After for a key over its limits. REQUIRES: no stay.
Reply quota_reply(const KeyQuotas::Entry& entry, int retry_after_s);

// An answer being made: draining waits for it.
class ActiveAnswer {
 public:
  explicit ActiveAnswer(Service& service) : service_(service) { ++service_.n_active; }
  ~ActiveAnswer() { --service_.n_active; }
  ActiveAnswer(const ActiveAnswer&) = delete;
  ActiveAnswer& operator=(const ActiveAnswer&) = delete;

 private:
  Service& service_;
};

struct Admission {
  AnswerIdentity who;
  std::optional<Reply> refusal;
};
// Parses, tokenises and submits; whatever is wrong becomes a reply. Not for I/O threads.
Admission admit(Service& service, Endpoint endpoint, std::string_view body, const CallHeaders& headers, Caller caller,
                const SinkMaker& make_sink);

// Why a finished request has no answer to show; nullopt when it has one.
std::optional<Error> fault_of(const RequestSummary& summary);
// Likewise of what was taken of an answer, which may have been cut off.
std::optional<Error> fault_of(const AnswerChannel::Taken& taken);
// Adds what was taken to what is known of the choice `index`; its text and log probabilities only when they are `kept`.
void gather(const AnswerIdentity& who, std::size_t index, AnswerChannel::Taken& taken, bool kept, Choice& choice);
// The events for what was taken of one of the choices, and gathered; with the end of the last, everything up to [DONE].
std::string stream_text(const AnswerIdentity& who, std::size_t choice, const AnswerChannel::Taken& taken,
                        std::span<const Choice> choices);

template <class Make>
Reply guarded_reply(Make make, int retry_after_s) {
  try {
    return make();
  } catch (const Error& error) {
    if (http_status(error) == 500) log_error("a request failed: " + error.message());
    return error_reply(error, retry_after_s);
  } catch (const std::bad_alloc&) {
    return exhausted_reply(retry_after_s);
  } catch (const std::exception& error) {
    log_error(std::string("a request failed: ") + error.what());
    return error_reply(Error(ErrorCode::kInternal, "internal error"), retry_after_s);
  }
}

}  // namespace slip
