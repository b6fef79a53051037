// SPDX-License-Identifier: Apache-2.0
#include "ledger/drift_panel.h"

#include <array>
#include <cmath>
#include <utility>

#include "ledger/report_parts.h"

namespace slip {
namespace {

constexpr int kGapBuckets = 6;  // a longer silence breaks the line
constexpr const char* kGrid = "#E6E9ED";

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

void draw_axes(SvgCanvas& canvas, const DriftPanel& panel) {
  const int low = static_cast<int>(std::lround(panel.range.low * 10)),
            high = static_cast<int>(std::lround(panel.range.high * 10));
  const int step = high - low > 5 ? 2 : 1;
  for (int tenth = low; tenth <= high; tenth += step) {
    const double y = panel.y(tenth / 10.0);
    canvas.line({panel.left, y}, {panel.right, y}, kGrid, 1);
    canvas.text({panel.left - 8, y + 4}, share_text(tenth / 10.0), {11, kSoft, "end"});
  }
  for (const auto tick : time_ticks(panel.span, panel.right - panel.left > 600 ? 10 : 5)) {
    const double x = panel.x(tick);
    canvas.line({x, panel.bottom}, {x, panel.bottom + 4}, "#B8C0CA", 1);
    canvas.text({x, panel.bottom + 18}, utc_text(tick, tick_format(panel.span)), {11, kSoft, "middle"});
  }
  canvas.line({panel.left, panel.bottom}, {panel.right, panel.bottom}, "#B8C0CA", 1);
}

// Maximal stretches of points without a long silence between them.
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

void draw_band(SvgCanvas& canvas, const DriftPanel& panel, const Trend& trend) {
  for (const auto& run :
       stretches(trend, panel.bucket_us, [](const TrendPoint& point) { return point.alpha_interval.has_value(); })) {
    if (run.size() < 2) continue;
    std::vector<SvgPoint> outline;
    for (const auto& point : run) outline.push_back({panel.middle(point), panel.y(point.alpha_interval->high)});
    for (auto point = run.rbegin(); point != run.rend(); ++point) {
      outline.push_back({panel.middle(*point), panel.y(point->alpha_interval->low)});
    }
    canvas.polygon(outline, kLive, 0.14);
  }
}

template <class Value>
void draw_curve(SvgCanvas& canvas, const DriftPanel& panel, const Trend& trend, Value value, bool is_live) {
  for (const auto& run :
       stretches(trend, panel.bucket_us, [&](const TrendPoint& point) { return value(point).has_value(); })) {
    std::vector<SvgPoint> points;
    for (const auto& point : run) points.push_back({panel.middle(point), panel.y(*value(point))});
    if (points.size() > 1) {
      canvas.polyline(points, is_live ? kLive : kBase, is_live ? 2.8 : 1.8, is_live ? "" : "6 5");
    }
    if (!is_live && points.size() > 1) continue;
    for (const auto& point : points) canvas.circle(point, is_live ? 2.6 : 2.2, is_live ? kLive : kBase);
  }
}

void draw_end_labels(SvgCanvas& canvas, const DriftPanel& panel, const Trend& trend) {
  std::optional<double> live, base;
  double x = panel.left;
  for (const auto& point : trend) {
    if (const auto value = live_alpha(point)) live = value;
    if (point.base_alpha) base = point.base_alpha;
    if (live || base) x = panel.middle(point) + 8;
  }
  constexpr double kApart = 13;
  double live_y = live ? panel.y(*live) : 0, base_y = base ? panel.y(*base) : 0;
  if (live && base && std::abs(live_y - base_y) < kApart) {
    const double middle = (live_y + base_y) / 2, sign = live_y <= base_y ? -1 : 1;
    live_y = middle + sign * kApart / 2;
    base_y = middle - sign * kApart / 2;
  }
  if (live) canvas.text({x, live_y + 4}, share_text(live), {12, kLive, "start", true});
  if (base) canvas.text({x, base_y + 4}, share_text(base), {12, kBase, "start"});
}

// What happened to one topic, left to right. Marks that would cover each other are stacked.
void draw_events(SvgCanvas& canvas, const DriftPanel& panel, const std::string& topic,
                 const std::vector<LedgerEvent>& events) {
  constexpr double kMarkWidth = 12, kLabelWidth = 26;
  std::vector<const LedgerEvent*> own;
  for (const auto& event : events) {
    if (event.topic == topic && event.at_us >= panel.span.from_us) own.push_back(&event);
  }
  double last_x = -kMarkWidth, y = panel.top + 4;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const LedgerEvent& event = *own[i];
    const double x = panel.x(event.at_us);
    const double next_x = i + 1 < own.size() ? panel.x(own[i + 1]->at_us) : panel.right + kEndLabels;
    y = x - last_x < kMarkWidth ? y - kMarkWidth : panel.top + 4;
    last_x = x;
    if (event.kind != "refuse") {
      canvas.line({x, panel.top + kMarkStrip - 6}, {x, panel.bottom}, "#C9D1DA", 1, "2 3");
    }
    if (y < panel.top - kMarkWidth) continue;  // three at one place: the tooltip and the table have the rest
    canvas.mark({x, y}, event.kind, event_text(event));
    if (event.kind == "publish" && next_x - x > kLabelWidth) {
      canvas.text({x + 7, y + 4}, version_text(event.version), {10, kSoft, "start"});
    }
  }
}

// The longest name that is allowed (48 letters) would run into the figures beside it.
std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 20;
  return name.size() <= kMost ? name : name.substr(0, kMost - 1) + "…";
}

void draw_panel_title(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic) {
  const double y = panel.top - 20;
  canvas.text({panel.left - kAxisLabels, y}, shortened(topic.topic), {16, kInk, "start", true});
  std::string figures = std::to_string(topic.requests) + (topic.requests == 1 ? " request" : " requests");
  if (topic.version > 0) figures += " · " + version_text(topic.version);
  if (topic.version > 0 && topic.version_gain) {
    figures += " gains " + gain_text(topic.version_gain, topic.version_gain_interval);
  }
  canvas.text({panel.right + kEndLabels, y}, figures, {12, kSoft, "end"});
}

void draw_waiting(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic) {
  const std::string text =
      "waiting for " + std::to_string(kLeastRequests) + " requests (" + std::to_string(topic.requests) + " so far)";
  canvas.text({(panel.left + panel.right) / 2, (panel.top + panel.bottom) / 2 + 6}, text, {14, kSoft, "middle"});
}

}  // namespace

void draw_drift_panel(SvgCanvas& canvas, const DriftPanel& panel, const TopicFigures& topic, const Trend& trend,
                      const std::vector<LedgerEvent>& events) {
  draw_panel_title(canvas, panel, topic);
  if (trend.empty() || topic.requests < kLeastRequests) return draw_waiting(canvas, panel, topic);
  draw_axes(canvas, panel);
  draw_band(canvas, panel, trend);
  draw_events(canvas, panel, topic.topic, events);
  draw_curve(canvas, panel, trend, live_alpha, true);
  // Above the live curve, so that it shows where both are the same.
  draw_curve(
      canvas, panel, trend, [](const TrendPoint& point) { return point.base_alpha; }, false);
  draw_end_labels(canvas, panel, trend);
}

}  // namespace slip
