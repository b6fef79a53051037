// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/speculation_policy.h"

namespace slip {

// The default: maximizes the tokens in the step's time, by measured acceptance rates and step times (SmartSpec, arXiv
// 2406.14066, with a length for each sequence). Tokens of late sequences count more. Prompts, and sequences that are
// ahead of their targets, wait for them.
class GoodputPolicy final : public SpeculationPolicy {
 public:
  explicit GoodputPolicy(PolicyOptions options) : options_(options) {}

  void limit_step(std::span<const DeadlineLoad> loads, const StepForecast& forecast, const StepCurve& curve,
                  std::int32_t most_rows, DeadlineLimits& limits) override;
  void choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
              std::vector<DraftOrder>& orders) override;
  void add_step(double us) override;
  void select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) override;

 private:
  LengthChoice choose_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows);
  void price_proposal(const DraftOutlook& outlook, std::int32_t rows, DraftOrder& order) const;

  PolicyOptions options_;
  StepPrice price_;                // of this step
  double prompt_share_ = 0;        // of the decoding steps that read prompts too, smoothed
  double probe_allowance_us_ = 0;  // that probes may take
  double refused_probe_us_ = 0;    // of the cheapest probe that the last ones' allowance did not suffice for
  std::vector<DraftLength> lengths_;
};

}  // namespace slip
