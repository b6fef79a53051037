// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace slip {

// One measurement of a trainer's export, on text that no optimizer step had seen.
struct CurvePoint {
  double steps = 0;       // optimizer steps of the trainer when it was exported
  double alpha = 0;       // the export's acceptance rate
  double alpha_base = 0;  // the base draft's on the same text
  double requests = 0;    // of that text; the weight of the point
};

// The acceptance rate of one topic's trainer over its optimizer steps, and the rise to expect from more of them.
// The rate above the base draft's on the same text is what counts, since texts differ more than drafts do. It is taken
// to rise with the logarithm of the steps. A straight line through the first 25 steps of sql, which brought .36,
// promised .43 for the next 40, and .05 came. The slope comes from weighted least squares over the latest points, from
// three exports on without the start, whose rise is the steepest and comes once. Its rise is combined with that of a
// prior by their precisions: a fresh topic is taken to rise, with a time constant of 50 steps. Pure; the 12 latest
// points are kept.
class LearningCurve {
 public:
  // Of the rise over the next steps, in α. Normal.
  struct Rise {
    double mean = 0, deviation = 0;
  };

  // `alpha_at_start`: of the draft that training starts from. `share_drafted`: of what it has still to learn, the part
  // that proposals wait for; a prompt lookup knows the rest. The prior rise is in proportion to (1 − α)⁵: .28 within
  // 40 steps for a draft that accepts nothing, .08 at α = .22, .012 at .47, .002 at .65.
  explicit LearningCurve(double alpha_at_start = 0.22, double share_drafted = 1);

  // The trainer's first weights are the base draft's, so that the difference at no steps is known without measuring.
  void start_from_base();
  // A second measurement of the same export is pooled with the first. Fewer steps than the latest point has mean that
  // the trainer started over: all earlier points are dropped. Points of no requests are ignored.
  void add(const CurvePoint& point);
  // More requests about an export that is a point already, such as the live version; others are ignored. An export is
  // published for its luck as well, and the requests after that put it right.
  void add_to_known(const CurvePoint& more);
  // Forgets all points, when the text has changed.
  void clear() { points_.clear(); }

  Rise rise(double steps) const;
  // The expected improvement E[max(0, rise)] (Jones et al., 1998): a worse export is never published, so that
  // uncertainty has a value, which shrinks with the data.
  double predicted_gain(double steps) const;
  // The weighted mean of the latest points' rates above the base draft's; 0 without points.
  double advantage() const;
  bool empty() const { return points_.empty(); }
  double latest_steps() const { return points_.empty() ? 0 : points_.back().steps; }

 private:
  CurvePoint* known(double steps);

  double room_;
  std::vector<CurvePoint> points_;  // by ascending steps
};

}  // namespace slip
