// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/figures.h"
#include "ledger/svg_canvas.h"

namespace slip {

// Widths of the labels left and right of a plot, and height of the strip for marks, in SVG user units.
inline constexpr double kAxisLabels = 34, kEndLabels = 36, kMarkStrip = 18;
inline constexpr std::int64_t kLeastRequests = 8;  // fewer requests give no useful curve

using Trend = std::vector<TrendPoint>;

struct Range {
  double low = 0, high = 1;
};

struct TimeSpan {
  std::int64_t from_us = 0, to_us = 1;
};

// One plot: its place on the page and its scales. Curves stay out of the strip at its top.
struct Plot {
  double left = 0, right = 0, top = 0, bottom = 0, head = 0;
  Range range;
  TimeSpan span;
  std::int64_t bucket_us = 0;

  double x(std::int64_t us) const {
    return left + (right - left) * static_cast<double>(us - span.from_us) /
                      static_cast<double>(std::max<std::int64_t>(1, span.to_us - span.from_us));
  }
  double middle(const TrendPoint& point) const { return x(point.bucket_us + bucket_us / 2); }
  double y(double value) const {
    const double share = std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
    return bottom - share * (bottom - top - head);
  }
};

// The values of a point that are drawn: both drafts on the same text where they were scored, else what was served.
struct DriftCurve {
  const char* caption;
  std::optional<double> (*live)(const TrendPoint& point);
  std::optional<double> (*base)(const TrendPoint& point);
  std::optional<Interval> (*band)(const TrendPoint& point);
  std::string (*text)(std::optional<double> value);
  double tick;  // distance of the grid's lines
};
extern const DriftCurve kAlphaCurve, kLengthCurve;

// One topic's plots, stacked above one time axis.
struct DriftPanel {
  Plot alpha, length;
};

// Draws a group of class "topic" with data-topic: title and figures, axes, and for α and for the accepted length the
// live draft's curve with its band, the base draft's curve, and the marks of decisions. A topic with too few requests
// shows how many are missing.
void draw_drift_panel(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic, const Trend& trend,
                      const std::vector<LedgerEvent>& events);

}  // namespace slip
