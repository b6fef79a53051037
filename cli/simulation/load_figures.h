// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/scheduler/slo_targets.h"

namespace slip {

// One request of a load as its client saw it; times in milliseconds.
struct ReplyFigures {
  int status = 0;  // as in HTTP; 0: no connection, or cut off midway
  std::string finish_reason;
  double ttft_ms = 0, e2e_ms = 0;
  std::vector<double> gaps_ms;  // between chunks with text
  std::int64_t completion_tokens = 0;
  // As in RequestFigures: siblings are not among `accepted`.
  std::int64_t steps = 0, proposed = 0, accepted = 0, first_rejections = 0, accepted_siblings = 0;
  std::int64_t drafted_steps = 0;  // those of `steps` with a proposal
  SloTargets slo;                  // that it asked for
};

// The requests of a load, and the seconds from its start to the end of the last one.
struct LoadFigures {
  std::vector<ReplyFigures> replies;
  double elapsed_s = 0;
};

// Counts, α, drafted and accepted tokens, accepted_length if steps are known, tokens_per_s, and mean, p50 and p99 of
// ttft_ms, tpot_ms, itl_ms and e2e_ms over all runs. tpot_ms is an answer's time per token after the first. itl_ms is
// the time between tokens; those of one chunk are 0 ms apart. If requests asked for targets, also `attainment`, the
// share of those that got them, `attainments`, the same for each of the targets, and `goodput_per_s` and
// `goodput_tokens_per_s`, of those requests alone. A request that was refused or failed has not got them. Pure.
nlohmann::json summarize(const std::vector<LoadFigures>& runs);

}  // namespace slip
