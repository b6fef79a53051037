// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distill/canary/expected_gain.h"

namespace slip {

// How much better one export of a trainer was than an earlier one, on text that no optimizer step had seen.
struct MeasuredRise {
  double from_steps = 0, to_steps = 0;  // optimizer steps of the two exports; 0: the base draft
  ExpectedGain gain;                    // see SmoothGain
  bool operator==(const MeasuredRise&) const = default;
};

// The learning curve of one topic's trainer: acceptance rate over optimizer steps, and the rise to expect from further
// steps. It uses pairs of exports on the same text, since texts differ more than drafts do. The model is a rise with
// the logarithm of the steps: a straight line through the first 25 steps of sql, which gained .36, predicted .43 for
// the next 40, but only .05 came. The slope comes from weighted least squares over the latest pairs. Those that begin
// at the base draft share an offset that is fitted too, since the first steps do more than the later ones, or less. The
// fitted rise is combined with a prior by their precisions. The prior assumes that a new topic rises, with a time
// constant of 50 steps. Pure; keeps the 12 latest pairs.
class LearningCurve {
 public:
  // `alpha_at_start`: acceptance rate of the draft that training starts from. `share_drafted`: of the tokens that this
  // draft misses on its own, the share that a prompt lookup does not supply. The prior rise grows as (1 − α)⁵: .28
  // within 40 steps for a draft of which nothing is accepted, .08 at α = .22, .012 at .47, .001 at .65.
  explicit LearningCurve(double alpha_at_start = 0.22, double share_drafted = 1);

  // Adds a measurement. One that ends before the latest one means that the trainer restarted, so the earlier ones are
  // dropped. One without a finite deviation is ignored. REQUIRES: from_steps < to_steps.
  void add(const MeasuredRise& measured);

  ExpectedGain rise(double steps) const;
  // The expected improvement E[max(0, rise)] (Jones et al., 1998). A worse export is never published, so uncertainty
  // has a value; it shrinks with more data.
  double predicted_gain(double steps) const;
  bool empty() const { return measured_.empty(); }
  double latest_steps() const { return measured_.empty() ? 0 : measured_.back().to_steps; }
  bool operator==(const LearningCurve&) const = default;

  // The state to save, and the curve restored from it.
  double room() const { return room_; }
  const std::vector<MeasuredRise>& measured() const { return measured_; }
  static LearningCurve resumed(double room, const std::vector<MeasuredRise>& measured);

 private:
  double room_;  // the prior rise, as a share of that of a draft of which nothing is accepted; 0 to 1
  std::vector<MeasuredRise> measured_;  // by ascending to_steps
};

}  // namespace slip
