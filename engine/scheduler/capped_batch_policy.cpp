// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/capped_batch_policy.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace slip {
namespace {

constexpr std::uint32_t kProbeInterval = 32;  // steps
constexpr double kNever = std::numeric_limits<double>::infinity();

bool is_decoding(const DeadlineLoad& load) {
  return load.n_pending == 1;
}

double time_left_us(const DeadlineLoad& load) {
  return load.slo.tpot_us > 0 ? slack_us(load) : kNever;
}

}  // namespace

std::int32_t batch_cap(std::span<const DeadlineLoad> loads, const StepCurve& curve) {
  double tightest_us = kNever;
  for (const DeadlineLoad& load : loads) {
    if (load.slo.tpot_us > 0) tightest_us = std::min(tightest_us, static_cast<double>(load.slo.tpot_us));
  }
  const auto n = static_cast<std::int32_t>(std::count_if(loads.begin(), loads.end(), is_decoding));
  std::int32_t cap = 1;
  while (cap < n && curve.pass_us(cap + 1) <= tightest_us) ++cap;
  return cap;
}

void mark_beyond_cap(std::span<const DeadlineLoad> loads, std::int32_t cap, PolicyKind kind,
                     std::vector<std::uint8_t>& skipped) {
  skipped.assign(loads.size(), 0);
  for (std::size_t i = 0; i < loads.size(); ++i) skipped[i] = is_decoding(loads[i]) ? 1 : 0;
  for (std::int32_t taken = 0; taken < cap; ++taken) {
    std::size_t next = loads.size();
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (skipped[i] == 0) continue;
      const bool is_sooner =
          next < loads.size() && kind == PolicyKind::kStta && time_left_us(loads[i]) < time_left_us(loads[next]);
      if (next == loads.size() || is_sooner) next = i;
    }
    if (next == loads.size()) return;
    skipped[next] = 0;
  }
}

void CappedBatchPolicy::limit_step(std::span<const DeadlineLoad> loads, const StepForecast& /*forecast*/,
                                   const StepCurve& curve, std::int32_t most_rows, DeadlineLimits& limits) {
  limits.prompt_rows = most_rows;
  const bool is_probe = ++n_limited_ % kProbeInterval == 0;
  mark_beyond_cap(loads, batch_cap(loads, curve) + (is_probe ? 1 : 0), kind_, limits.skipped);
}

void CappedBatchPolicy::choose(std::span<const DraftOutlook> outlooks, std::int32_t /*prompt_rows*/,
                               const StepCurve& /*curve*/, std::vector<DraftOrder>& orders) {
  orders.assign(outlooks.size(), {});
}

void CappedBatchPolicy::select(std::vector<ProposedNode>& nodes, std::int32_t /*rows*/, std::int32_t /*room*/) {
  nodes.clear();
}

}  // namespace slip
