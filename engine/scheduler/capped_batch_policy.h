// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/speculation_policy.h"

namespace slip {

// The most decoding sequences whose step takes at most the tightest time per token that a running sequence asks for; at
// least 1, also where even that is too slow. Without such a target: all of them. Pure.
std::int32_t batch_cap(std::span<const DeadlineLoad> loads, const StepCurve& curve);

// Marks the decoding sequences that skip the next step: all but `cap`. With kFcfs the first of `loads` take part. With
// kStta the ones with the least slack do, those without a target last. Pure. Cost: O(loads · cap); allocates nothing
// for as many loads as before.
void mark_beyond_cap(std::span<const DeadlineLoad> loads, std::int32_t cap, PolicyKind kind,
                     std::vector<std::uint8_t>& skipped);

// For comparison: two schedulers without speculation, FCFS and STTA (shortest time to attain), with which AdaServe
// (arXiv 2501.12162) is compared. The batch is capped so that a step is fast enough for the tightest target; the other
// sequences wait. Prompts are read as they come: the time per token counts from the first token, so a policy that
// delays prompts would look good although first tokens are late. In one step of 32 one more sequence takes part, since
// the predicted time of a row count that was never tried may be too long. With kStta a sequence without a target waits
// for as long as others fill the batch.
class CappedBatchPolicy final : public SpeculationPolicy {
 public:
  explicit CappedBatchPolicy(PolicyKind kind) : kind_(kind) {}  // kFcfs or kStta

  bool speculates() const override { return false; }
  void limit_step(std::span<const DeadlineLoad> loads, const StepForecast& forecast, const StepCurve& curve,
                  std::int32_t most_rows, DeadlineLimits& limits) override;
  void choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
              std::vector<DraftOrder>& orders) override;
  void select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) override;

 private:
  PolicyKind kind_;
  std::uint32_t n_limited_ = 0;  // steps
};

}  // namespace slip
