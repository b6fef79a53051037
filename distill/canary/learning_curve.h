// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace slip {

// One measurement of a trainer's export, on text that no optimizer step had seen.
struct CurvePoint {
  double steps = 0;       // optimizer steps of the trainer when it was exported
  double alpha = 0;       // the export's acceptance rate
  double alpha_base = 0;  // the base draft's on the same text
  double requests = 0;    // number of requests in that text; the weight of the point
};

// The learning curve of one topic's trainer: acceptance rate over optimizer steps, and the rise to expect from further
// steps. It uses the rate minus the base draft's rate on the same text, since texts differ more than drafts do. The
// model is a rise with the logarithm of the steps: a straight line through the first 25 steps of sql, which gained .36,
// predicted .43 for the next 40, but only .05 came. The slope comes from weighted least squares over the latest points.
// From three exports on, the start is left out, since its rise is the steepest and happens only once. The fitted rise
// is combined with a prior by their precisions. The prior assumes that a new topic rises, with a time constant of 50
// steps. Pure; keeps the 12 latest points.
class LearningCurve {
 public:
  // The normal distribution of the rise over the next steps, in α.
  struct Rise {
    double mean = 0, deviation = 0;
  };

  // `alpha_at_start`: acceptance rate of the draft that training starts from. `share_drafted`: of the tokens that this
  // draft misses on its own, the share that a prompt lookup does not supply. The prior rise grows as (1 − α)⁵: .28
  // within 40 steps for a draft of which nothing is accepted, .08 at α = .22, .012 at .47, .002 at .65.
  explicit LearningCurve(double alpha_at_start = 0.22, double share_drafted = 1);

  // Declares that the trainer starts from the base draft's weights: the difference at step 0 is then known to be 0.
  void start_from_base();
  // Adds a point. A second measurement of the same export is pooled with the first. A point with fewer steps than the
  // latest one means that the trainer restarted, so all earlier points are dropped. Points with 0 requests are ignored.
  void add(const CurvePoint& point);
  // Adds requests to an export that already has a point, such as the live version; other exports are ignored. The
  // requests after a publication correct its selection bias: a published export also had luck.
  void add_to_known(const CurvePoint& more);

  Rise rise(double steps) const;
  // The expected improvement E[max(0, rise)] (Jones et al., 1998). A worse export is never published, so uncertainty
  // has a value; it shrinks with more data.
  double predicted_gain(double steps) const;
  bool empty() const { return points_.empty(); }
  double latest_steps() const { return points_.empty() ? 0 : points_.back().steps; }

 private:
  CurvePoint* known(double steps);

  double room_;
  std::vector<CurvePoint> points_;  // by ascending steps
};

}  // namespace slip
