// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "ledger/drift_panel.h"
#include "ledger/report_parts.h"
#include "ledger/svg_canvas.h"

namespace slip {
namespace {

constexpr double kWidth = 1040, kMargin = 32, kGap = 36;
constexpr double kHeader = 142, kPanelTitle = 48, kAlphaHeight = 160, kBetween = 30, kLengthHeight = 64,
                 kPanelFoot = 40, kFooter = 46;
constexpr double kPlotHeight = kAlphaHeight + kBetween + kLengthHeight;
constexpr Range kLegalAlpha{0, 1}, kLegalLength{1, 64};  // a step commits at least one token

// The scale shared by all panels: a whole number of ticks, at least three.
Range shared_range(const std::map<std::string, Trend>& trends, const DriftCurve& curve, Range legal) {
  double low = legal.high, high = legal.low;
  for (const auto& [topic, trend] : trends) {
    for (const auto& point : trend) {
      for (const auto value : {curve.live(point), curve.base(point)}) {
        if (!value) continue;
        low = std::min(low, *value);
        high = std::max(high, *value);
      }
    }
  }
  if (low > high) return {legal.low, legal.low + 3 * curve.tick};
  Range range{std::max(legal.low, std::floor(low / curve.tick - 0.3) * curve.tick),
              std::min(legal.high, std::ceil(high / curve.tick + 0.3) * curve.tick)};
  const double least = 3 * curve.tick;
  if (range.high - range.low < least) range.low = std::max(legal.low, range.high - least);
  if (range.high - range.low < least) range.high = range.low + least;
  return range;
}

TimeSpan time_span(const std::map<std::string, Trend>& trends, const std::vector<LedgerEvent>& events,
                   std::int64_t bucket_us) {
  TimeSpan span{INT64_MAX, INT64_MIN};
  for (const auto& [topic, trend] : trends) {
    span.from_us = std::min(span.from_us, trend.front().bucket_us);
    span.to_us = std::max(span.to_us, trend.back().bucket_us + bucket_us);
  }
  for (const auto& event : events) span.to_us = std::max(span.to_us, event.at_us);
  return span;
}

void draw_legend(SvgCanvas& canvas) {
  const double y = 108;
  double x = kMargin;
  canvas.polygon(std::array<SvgPoint, 4>{{{x, y - 9}, {x + 30, y - 9}, {x + 30, y + 5}, {x, y + 5}}}, kLive, 0.14);
  canvas.line({x, y - 2}, {x + 30, y - 2}, kLive, 2.8);
  canvas.text({x + 38, y + 2}, "live draft, 95 % band", {12, kInk, "start"});
  x += 196;
  canvas.line({x, y - 2}, {x + 30, y - 2}, kBase, 1.8, "6 5");
  canvas.text({x + 38, y + 2}, "base draft, same text", {12, kInk, "start"});
  x += 206;
  const std::array<std::pair<const char*, const char*>, 4> marks = {
      {{"publish", "published"}, {"refuse", "refused"}, {"rollback", "rolled back"}, {"drift", "drift"}}};
  for (const auto& [kind, name] : marks) {
    canvas.mark({x + 6, y - 2}, kind, "");
    canvas.text({x + 18, y + 2}, name, {12, kInk, "start"});
    x += 44 + 7.0 * static_cast<double>(std::string(name).size());
  }
}

std::string subtitle(TimeSpan span, const std::vector<TopicFigures>& topics) {
  std::int64_t requests = 0;
  for (const auto& topic : topics) requests += topic.requests;
  return counted(static_cast<std::uint64_t>(requests), "request") + ", " + utc_text(span.from_us, "%Y-%m-%d %H:%M") +
         " to " + utc_text(span.to_us, span.to_us - span.from_us < 86'400'000'000 ? "%H:%M" : "%Y-%m-%d %H:%M") +
         " UTC";
}

std::string empty_svg() {
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, 220, kPaper);
  canvas.text({kMargin, 52}, "How often drafted tokens are accepted", {24, kInk, "start", true});
  canvas.text({kWidth / 2, 132}, "waiting for " + std::to_string(kLeastRequests) + " requests: none in this period yet",
              {16, kSoft, "middle"});
  return canvas.document(kWidth, 220, "Drift report", "No requests in this period yet.");
}

DriftPanel place(std::size_t index, std::size_t columns) {
  const double width = (kWidth - 2 * kMargin - kGap * static_cast<double>(columns - 1)) / static_cast<double>(columns);
  const double left = kMargin + static_cast<double>(index % columns) * (width + kGap);
  const std::size_t row = index / columns;
  const double top = kHeader + static_cast<double>(row) * (kPanelTitle + kPlotHeight + kPanelFoot) + kPanelTitle;
  Plot alpha;
  alpha.left = left + kAxisLabels;
  alpha.right = left + width - kEndLabels;
  alpha.top = top;
  alpha.bottom = top + kAlphaHeight;
  alpha.head = kMarkStrip;
  Plot length = alpha;
  length.top = alpha.bottom + kBetween;
  length.bottom = length.top + kLengthHeight;
  length.head = 0;
  return {alpha, length};
}

}  // namespace

std::string drift_svg(const LedgerReader& ledger) {
  auto topics = topic_figures(ledger);
  std::stable_partition(topics.begin(), topics.end(),
                        [](const TopicFigures& topic) { return topic.requests >= kLeastRequests; });
  const auto trends = trend_by_topic(ledger);
  const auto events = ledger_events(ledger);
  if (topics.empty() || trends.empty()) return empty_svg();

  const TimeSpan span = time_span(trends, events, ledger.bucket_us());
  const Range alphas = shared_range(trends, kAlphaCurve, kLegalAlpha);
  const Range lengths = shared_range(trends, kLengthCurve, kLegalLength);
  const std::size_t columns = topics.size() > 1 ? 2 : 1, rows = (topics.size() + columns - 1) / columns;
  const double height = kHeader + static_cast<double>(rows) * (kPanelTitle + kPlotHeight + kPanelFoot) + kFooter;
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, height, kPaper);
  canvas.text({kMargin, 52}, "How often drafted tokens are accepted", {24, kInk, "start", true});
  canvas.text({kMargin, 76}, subtitle(span, topics), {14, kSoft, "start"});
  draw_legend(canvas);
  for (std::size_t i = 0; i < topics.size(); ++i) {
    DriftPanel panel = place(i, columns);
    panel.alpha.range = alphas;
    panel.length.range = lengths;
    panel.alpha.span = panel.length.span = span;
    panel.alpha.bucket_us = panel.length.bucket_us = ledger.bucket_us();
    const auto trend = trends.find(topics[i].topic);
    draw_drift_panel(canvas, panel, topics[i], trend == trends.end() ? Trend() : trend->second, events);
  }
  canvas.text(
      {kMargin, height - 20},
      "α = accepted / (accepted + first rejections); length = tokens per target step. Both drafts on the same text; "
      "intervals count requests.",
      {12, kSoft, "start"});
  return canvas.document(
      kWidth, height, "Drift report",
      "Acceptance rate and accepted length of the live and the base draft over time, by topic, with what was "
      "published, refused, rolled back, and alarms of drift.");
}

}  // namespace slip
