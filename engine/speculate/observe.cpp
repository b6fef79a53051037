// SPDX-License-Identifier: Apache-2.0
#include "engine/speculate/observe.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace slip {

TopK observe_row(std::span<const float> logits, std::int32_t k) {
  thread_local std::vector<TokenLogprob> best;
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

void observe_verification(const Proposal& proposal, const Verdict& verdict, std::span<const std::int32_t> committed,
                          const std::function<TopK(std::int32_t)>& row, Observation& observation) {
  const std::size_t n_accepted = std::min(verdict.accepted.size(), committed.size());
  const bool ended_inside = committed.size() <= verdict.accepted.size();
  const std::size_t n = ended_inside ? static_cast<std::size_t>(verdict.accepted[n_accepted - 1]) + 1 : proposal.size();
  observation.committed.assign(committed.begin(), committed.end());
  observation.accepted.assign(verdict.accepted.begin(),
                              verdict.accepted.begin() + static_cast<std::ptrdiff_t>(n_accepted));
  observation.proposed.assign(proposal.tokens.begin(), proposal.tokens.begin() + static_cast<std::ptrdiff_t>(n));
  observation.parents.assign(proposal.parents.begin(), proposal.parents.begin() + static_cast<std::ptrdiff_t>(n));
  observation.law = proposal.law;
  observation.q.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t parent = proposal.parents[i];
    const float above = parent < 0 ? 0.0F : proposal.path_logprob[static_cast<std::size_t>(parent)];
    observation.q.push_back(std::exp(proposal.path_logprob[i] - above));
  }
  observation.rows.clear();
  for (std::size_t i = 0; i <= n; ++i) {
    const auto node = static_cast<std::int32_t>(i) - 1;
    const auto& path = observation.accepted;
    const bool on_path = i == 0 || std::find(path.begin(), path.end(), node) != path.end();
    const bool after_end = ended_inside && i > 0 && node == path.back();
    observation.rows.push_back({row(static_cast<std::int32_t>(i)), on_path && !after_end});
  }
}

}  // namespace slip
