// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/observe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/thread_memory.h"

namespace slip {

TopK observe_row(std::span<const float> logits, std::int32_t k) {
  auto& best = thread_scratch<std::vector<TokenLogprob>, struct Best>();
  top_logprobs(logits, k, best);
  TopK top;
  top.ids.reserve(best.size());
  top.logprobs.reserve(best.size());
  double mass = 0;
  for (const TokenLogprob& entry : best) {
    top.ids.push_back(entry.id);
    top.logprobs.push_back(entry.logprob);
    mass += std::exp(static_cast<double>(entry.logprob));
  }
  const bool all = best.size() == logits.size() || mass >= 1;
  top.log_tail = all ? -std::numeric_limits<float>::infinity() : static_cast<float>(std::log1p(-mass));
  return top;
}

void observe_verification(const Proposal& proposal, const VerifyResult& result, std::span<const std::int32_t> committed,
                          const std::function<TopK(std::int32_t)>& row, Observation& observation) {
  const std::size_t n_accepted = std::min(result.accepted.size(), committed.size());
  observation.committed.assign(committed.begin(), committed.end());
  observation.n_accepted = proposal.count_first_choices(std::span(result.accepted).first(n_accepted));
  observation.rejected = observation.n_accepted < static_cast<std::int32_t>(n_accepted) ||
                         (committed.size() > result.accepted.size() && result.rejected_one);
  observation.targets.clear();
  for (std::size_t i = 0; i < committed.size(); ++i) {
    observation.targets.push_back(row(i == 0 ? 0 : 1 + result.accepted[i - 1]));
  }
}

}  // namespace slip
