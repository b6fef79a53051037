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

inline constexpr const char* kInk = "#1F2933";
inline constexpr const char* kSoft = "#5F6C7B";
inline constexpr const char* kLive = "#0072B2";
inline constexpr const char* kBase = "#C56A00";
inline constexpr double kAxisLabels = 34, kEndLabels = 36, kMarkStrip = 18;
inline constexpr std::int64_t kLeastRequests = 8;  // fewer draw no curve worth looking at

using Trend = std::vector<TrendPoint>;

// The values that are drawn: both drafts on the same text where they were scored, else what was served.
inline std::optional<double> live_alpha(const TrendPoint& point) {
  return point.alpha_same_text ? point.alpha_same_text : point.alpha;
}

struct Range {
  double low = 0, high = 1;
};

struct TimeSpan {
  std::int64_t from_us = 0, to_us = 1;
};

// One topic's plot: where it lies on the page and how its axes map.
struct DriftPanel {
  double left = 0, right = 0, top = 0, bottom = 0;  // of the plot
  Range range;
  TimeSpan span;
  std::int64_t bucket_us = 0;

  double x(std::int64_t us) const {
    return left + (right - left) * static_cast<double>(us - span.from_us) /
                      static_cast<double>(std::max<std::int64_t>(1, span.to_us - span.from_us));
  }
  double middle(const TrendPoint& point) const { return x(point.bucket_us + bucket_us / 2); }
  double y(double alpha) const {
    const double share = std::clamp((alpha - range.low) / (range.high - range.low), 0.0, 1.0);
    return bottom - share * (bottom - top - kMarkStrip);
  }
};

// Title and figures, axes, the live draft's curve with its band, the base draft's, and the marks of what was decided;
// or how many requests it still waits for.
void draw_drift_panel(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic, const Trend& trend,
                      const std::vector<LedgerEvent>& events);

}  // namespace slip
