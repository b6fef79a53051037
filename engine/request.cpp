// SPDX-License-Identifier: Apache-2.0
#include "engine/request.h"

#include <algorithm>

namespace slip {

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kEndToken:
      return "stop_token";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kLength:
      return "length";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kFailed:
      return "failed";
  }
  return "none";
}

const char* proposer_name(ProposedBy by) {
  return by == ProposedBy::kDraft ? "draft" : "prompt_lookup";
}

ObservedRequest observed_request(const Request& request, AcceptanceRule rule) {
  return {request.id, request.route,  request.tenant,          request.prompt, request.sampling,
          rule,       request.choice, request.first_of_call(), request.name,   request.source};
}

double measured_tpot_ms(const RequestFigures& figures) {
  if (figures.output_tokens <= 1) return 0;
  return static_cast<double>(figures.finished_us - figures.first_token_us) / 1e3 / (figures.output_tokens - 1);
}

double measured_ttft_ms(const RequestFigures& figures) {
  if (figures.first_token_us == 0) return 0;
  return static_cast<double>(figures.first_token_us - figures.submitted_us) / 1e3;
}

double measured_e2e_ms(const RequestFigures& figures) {
  return static_cast<double>(figures.finished_us - figures.submitted_us) / 1e3;
}

double slo_violation(const SloTargets& slo, const RequestFigures& figures) {
  const auto ratio = [](std::int64_t target_us, double ms) {
    return target_us == 0 ? 0 : ms * 1e3 / static_cast<double>(target_us);
  };
  return std::max({ratio(slo.tpot_us, measured_tpot_ms(figures)), ratio(slo.ttft_us, measured_ttft_ms(figures)),
                   ratio(slo.e2e_us, measured_e2e_ms(figures))});
}

bool meets(const SloTargets& slo, const RequestFigures& figures) {
  return slo_violation(slo, figures) <= 1;
}

}  // namespace slip
