// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/ids.h"

namespace slip {

// The ledger's rows as plain data. Times are wall-clock microseconds UTC. Rows never hold prompt text.

// A request's tokens of one position in the proposal, proposer, and rank among the choices for their place.
struct TestedRow {
  int position = 0;
  std::string proposer = "draft";  // "draft", "prompt_lookup"
  int rank = 0;
  int reached = 0, accepted = 0;  // reached: tested
};
struct RequestRow {
  std::uint64_t request_id = 0;
  std::string http_id;        // X-Request-Id as sent to the client
  std::uint64_t call_id = 0;  // request_id of the call's first request; 0: this is the first
  std::uint64_t tenant = 0;   // a keyed hash of the sender's API key; 0 without keys
  std::int64_t finished_us = 0;
  std::string topic, draft;
  std::string topic_source = "none";                  // "label", "inferred", "none"
  std::uint64_t first_version = 0, last_version = 0;  // 0: the base draft's weights
  std::string rule;                                   // "rejection", "coupled", "greedy"
  double temperature = 0;
  std::string stop_reason;
  int prompt_tokens = 0, output_tokens = 0, steps = 0, proposed = 0, accepted = 0, first_rejections = 0, swaps = 0;
  int cached_tokens = 0;                                    // of the prompt, from the prefix cache
  int accepted_siblings = 0;                                // not among `accepted`
  double slo_tpot_ms = 0, slo_ttft_ms = 0, slo_e2e_ms = 0;  // asked for; 0: none
  std::string slo_tier;                                     // the name of these targets; empty: none
  int repeated_tokens = 0;
  double ttft_ms = 0, tpot_ms = 0, total_ms = 0;
  std::vector<TestedRow> tested;  // added to the acceptance buckets
};
struct SameTextRow {  // per request: live and base draft scored on the same verified text
  std::uint64_t request_id = 0;
  std::int64_t at_us = 0;
  std::string topic, draft;
  std::uint64_t version = 0;
  double live_accepted = 0, live_first_rejections = 0, live_steps = 0, base_accepted = 0, base_first_rejections = 0,
         base_steps = 0, tokens = 0;
};
struct DraftVersionRow {
  std::string draft, topic, reason, weights_sha256;
  std::uint64_t version = 0, parent = 0;
  std::int64_t created_us = 0;
  double heldout_alpha_before = 0, heldout_alpha = 0, p_value = 1;
  std::uint64_t optimizer_steps = 0, trained_requests = 0;
  std::string parent_draft;  // the draft that `parent` belongs to
};
struct CanaryRow {
  std::int64_t at_us = 0;
  std::string topic, draft, kind, reason;  // kind: publish, refuse, rollback, undecided
  std::uint64_t live_version = 0, candidate_version = 0, train_steps = 0, requests = 0;
  double alpha_live = 0, alpha_candidate = 0, length_live = 0, length_candidate = 0, gain = 0, gain_low = 0,
         gain_high = 0, p_value = 1, train_loss = 0;
};
struct DriftEventRow {
  std::int64_t at_us = 0;
  std::string topic, draft, detail;
  std::uint64_t version = 0;
  double alpha_before = 0, alpha_after = 0;
};
struct EngineLoadRow {  // one per 10 s bucket
  std::int64_t bucket_us = 0;
  std::int64_t steps = 0, committed = 0, proposed = 0, accepted = 0, prefill_rows = 0, verify_rows = 0;
  double busy_ms = 0, draft_ms = 0, verify_ms = 0, swap_ms = 0;
  int max_running = 0, max_waiting = 0;
  std::int64_t observations_dropped = 0;
  std::int64_t rows_dropped = 0;  // ignored: this row could be dropped too, so the ledger counts itself
};
// Learning's work for one topic within a minute. Counts and seconds are that minute's; the rest is the state at its
// end.
struct LearningRow {
  std::int64_t at_us = 0;  // the minute's end
  std::string topic, draft;
  std::uint64_t version = 0;  // the version in use
  double covered_s = 0;       // time that the row covers
  int cores = 0;              // available to the process
  std::uint64_t requests = 0, records_unscored = 0, optimizer_steps = 0, trainer_restarts = 0, published = 0,
                refused = 0, rolled_back = 0;
  double training_s = 0, scoring_s = 0, realised_gain = 0;
  std::uint64_t records_waiting = 0;
  double loss = 0, lag_s = 0, alpha_live = 0, alpha_base = 0, predicted_gain = 0;
  double share_of_service = 0, cost_tokens_per_s = 0;  // learning's, for all topics together
  std::string state, last_refusal;
};

struct TenantNameRow {  // a name that the tenant's API key has; written once
  std::string name;
  TenantId tenant;
};

using LedgerRow = std::variant<RequestRow, SameTextRow, DraftVersionRow, CanaryRow, DriftEventRow, EngineLoadRow,
                               LearningRow, TenantNameRow>;

}  // namespace slip
