// SPDX-License-Identifier: Apache-2.0
#include "ledger/drift_panel.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/counted.h"
#include "ledger/report_parts.h"

namespace slip {
namespace {

constexpr int kGapBuckets = 6;  // a longer gap breaks the line

std::string length_text(std::optional<double> length) {
  std::array<char, 32> digits{};
  if (length) std::snprintf(digits.data(), digits.size(), "%.1f", *length);
  return length ? digits.data() : "–";
}

std::vector<std::int64_t> time_ticks(TimeSpan span, int wanted) {
  constexpr std::array<std::int64_t, 18> kSteps = {10,   15,   30,    60,    120,   300,   600,    900,    1800,
                                                   3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000};
  std::int64_t step = kSteps.back() * 1'000'000;
  for (const auto seconds : kSteps) {
    if ((span.to_us - span.from_us) / (seconds * 1'000'000) <= wanted) {
      step = seconds * 1'000'000;
      break;
    }
  }
  std::vector<std::int64_t> ticks;
  for (std::int64_t tick = (span.from_us / step + 1) * step; tick < span.to_us; tick += step) ticks.push_back(tick);
  return ticks;
}

const char* tick_format(TimeSpan span) {
  const std::int64_t seconds = (span.to_us - span.from_us) / 1'000'000;
  if (seconds < 300) return "%H:%M:%S";
  return seconds < 2 * 86400 ? "%H:%M" : "%b %d";
}

void draw_grid(SvgCanvas& canvas, const Plot& plot, const DriftCurve& curve) {
  const auto low = std::lround(plot.range.low / curve.tick), high = std::lround(plot.range.high / curve.tick);
  const long step = high - low > 5 ? 2 : 1;
  for (long tick = low; tick <= high; tick += step) {
    const double value = static_cast<double>(tick) * curve.tick, y = plot.y(value);
    canvas.line({plot.left, y}, {plot.right, y}, kGrid, 1);
    canvas.text({plot.left - 8, y + 4}, curve.text(value), {11, kSoft, "end"});
  }
}

void draw_time_axis(SvgCanvas& canvas, const Plot& plot) {
  for (const auto tick : time_ticks(plot.span, plot.right - plot.left > 600 ? 10 : 5)) {
    const double x = plot.x(tick);
    canvas.line({x, plot.bottom}, {x, plot.bottom + 4}, kAxis, 1);
    canvas.text({x, plot.bottom + 18}, utc_text(tick, tick_format(plot.span)), {11, kSoft, "middle"});
  }
  canvas.line({plot.left, plot.bottom}, {plot.right, plot.bottom}, kAxis, 1);
}

// The maximal runs of points without a long gap.
template <class Has>
std::vector<std::vector<TrendPoint>> stretches(const Trend& trend, std::int64_t bucket_us, Has has) {
  std::vector<std::vector<TrendPoint>> runs;
  for (const auto& point : trend) {
    if (!has(point)) continue;
    const bool fresh = runs.empty() || point.bucket_us - runs.back().back().bucket_us > kGapBuckets * bucket_us;
    if (fresh) runs.emplace_back();
    runs.back().push_back(point);
  }
  return runs;
}

void draw_band(SvgCanvas& canvas, const Plot& plot, const DriftCurve& curve, const Trend& trend) {
  for (const auto& run :
       stretches(trend, plot.bucket_us, [&](const TrendPoint& point) { return curve.band(point).has_value(); })) {
    if (run.size() < 2) continue;
    std::vector<SvgPoint> outline;
    for (const auto& point : run) outline.push_back({plot.middle(point), plot.y(curve.band(point)->high)});
    for (auto point = run.rbegin(); point != run.rend(); ++point) {
      outline.push_back({plot.middle(*point), plot.y(curve.band(*point)->low)});
    }
    canvas.polygon(outline, kLive, 0.14);
  }
}

template <class Value>
void draw_line(SvgCanvas& canvas, const Plot& plot, const Trend& trend, Value value, bool is_live) {
  for (const auto& run :
       stretches(trend, plot.bucket_us, [&](const TrendPoint& point) { return value(point).has_value(); })) {
    std::vector<SvgPoint> points;
    for (const auto& point : run) points.push_back({plot.middle(point), plot.y(*value(point))});
    if (points.size() > 1) {
      canvas.polyline(points, is_live ? kLive : kBase, is_live ? 2.8 : 1.8, is_live ? "" : "6 5");
    }
    if (!is_live && points.size() > 1) continue;
    for (const auto& point : points) canvas.circle(point, is_live ? 2.6 : 2.2, is_live ? kLive : kBase);
  }
}

void draw_end_labels(SvgCanvas& canvas, const Plot& plot, const DriftCurve& curve, const Trend& trend) {
  std::optional<double> live, base;
  double x = plot.left;
  for (const auto& point : trend) {
    if (const auto value = curve.live(point)) live = value;
    if (const auto value = curve.base(point)) base = value;
    if (live || base) x = plot.middle(point) + 8;
  }
  constexpr double kApart = 13;
  double live_y = live ? plot.y(*live) : 0, base_y = base ? plot.y(*base) : 0;
  if (live && base && std::abs(live_y - base_y) < kApart) {
    const double middle = (live_y + base_y) / 2, sign = live_y <= base_y ? -1 : 1;
    live_y = middle + sign * kApart / 2;
    base_y = middle - sign * kApart / 2;
  }
  if (live) canvas.text({x, live_y + 4}, curve.text(live), {12, kLive, "start", true});
  if (base) canvas.text({x, base_y + 4}, curve.text(base), {12, kBase, "start"});
}

void draw_curves(SvgCanvas& canvas, const Plot& plot, const DriftCurve& curve, const Trend& trend) {
  canvas.begin_group(curve.caption);
  draw_band(canvas, plot, curve, trend);
  draw_line(canvas, plot, trend, curve.live, true);
  // Drawn above the live curve, so that it stays visible where both coincide
  draw_line(canvas, plot, trend, curve.base, false);
  draw_end_labels(canvas, plot, curve, trend);
  canvas.end_group();
}

// The topic's events, from left to right, each with a line through both plots. Overlapping marks are stacked. The
// fourth and later ones share the highest place, where their tooltips still distinguish them.
void draw_events(SvgCanvas& canvas, const DriftPanel& panel, const std::string& topic,
                 const std::vector<LedgerEvent>& events) {
  constexpr double kMarkWidth = 12, kLabelWidth = 26;
  const Plot& plot = panel.alpha;
  std::vector<const LedgerEvent*> own;
  for (const auto& event : events) {
    if (event.topic == topic && event.at_us >= plot.span.from_us) own.push_back(&event);
  }
  double last_x = -kMarkWidth, y = plot.top + 4;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const LedgerEvent& event = *own[i];
    const double x = plot.x(event.at_us);
    const double next_x = i + 1 < own.size() ? plot.x(own[i + 1]->at_us) : plot.right + kEndLabels;
    y = x - last_x < kMarkWidth ? std::max(y - kMarkWidth, plot.top - kMarkWidth) : plot.top + 4;
    last_x = x;
    if (event.kind != "refuse")
      canvas.line({x, plot.top + kMarkStrip - 6}, {x, panel.length.bottom}, kEventLine, 1, "2 3");
    canvas.mark({x, y}, event.kind, event_text(event));
    if (event.kind == "publish" && next_x - x > kLabelWidth) {
      canvas.text({x + 7, y + 4}, version_text(event.version), {10, kSoft, "start"});
    }
  }
}

void draw_panel_title(SvgCanvas& canvas, const Plot& plot, const TopicFigures& topic) {
  const double y = plot.top - 20;
  canvas.text({plot.left - kAxisLabels, y}, short_topic(topic.topic), {16, kInk, "start", true});
  std::string figures = counted(static_cast<std::uint64_t>(topic.requests), "request");
  if (topic.version > 0) figures += " · " + version_text(topic.version);
  if (topic.version > 0 && topic.version_gain) {
    figures += " gains " + gain_text(topic.version_gain, topic.version_gain_interval);
  }
  canvas.text({plot.right + kEndLabels, y}, figures, {12, kSoft, "end"});
}

void draw_waiting(SvgCanvas& canvas, const Plot& plot, const TopicFigures& topic) {
  const std::string text =
      "waiting for " + std::to_string(kLeastRequests) + " requests (" + std::to_string(topic.requests) + " so far)";
  canvas.text({(plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2 + 6}, text, {14, kSoft, "middle"});
}

void draw_plots(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic, const Trend& trend,
                const std::vector<LedgerEvent>& events) {
  canvas.text({panel.alpha.left - 8, panel.alpha.top + 8}, "α", {11, kSoft, "end"});
  canvas.text({panel.length.left, panel.length.top - 8}, "accepted length", {11, kSoft, "start"});
  draw_grid(canvas, panel.alpha, kAlphaCurve);
  draw_grid(canvas, panel.length, kLengthCurve);
  draw_time_axis(canvas, panel.length);
  draw_events(canvas, panel, topic.topic, events);
  draw_curves(canvas, panel.alpha, kAlphaCurve, trend);
  draw_curves(canvas, panel.length, kLengthCurve, trend);
}

}  // namespace

const DriftCurve kAlphaCurve = {
    "alpha",
    [](const TrendPoint& point) { return point.alpha_same_text ? point.alpha_same_text : point.alpha; },
    [](const TrendPoint& point) { return point.base_alpha; },
    [](const TrendPoint& point) { return point.alpha_interval; },
    share_text,
    0.1};
const DriftCurve kLengthCurve = {
    "length",
    [](const TrendPoint& point) { return point.length_same_text ? point.length_same_text : point.accepted_length; },
    [](const TrendPoint& point) { return point.base_length; },
    [](const TrendPoint& point) { return point.length_interval; },
    length_text,
    0.5};

void draw_drift_panel(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic, const Trend& trend,
                      const std::vector<LedgerEvent>& events) {
  canvas.begin_group("topic", topic.topic);
  draw_panel_title(canvas, panel.alpha, topic);
  if (trend.empty() || topic.requests < kLeastRequests) {
    draw_waiting(canvas, panel.alpha, topic);
  } else {
    draw_plots(canvas, panel, topic, trend, events);
  }
  canvas.end_group();
}

}  // namespace slip
