// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ledger/drift_panel.h"
#include "ledger/report_parts.h"
#include "ledger/svg_canvas.h"

namespace slip {
namespace {

constexpr double kWidth = 1040, kMargin = 32, kHeader = 128, kFooter = 46;
constexpr double kTitle = 40, kAlphaHeight = 120, kBetween = 16, kStepsHeight = 44, kFoot = 44;
constexpr double kPanel = kTitle + kAlphaHeight + kBetween + kStepsHeight + kFoot;
constexpr double kTick = 0.2;  // distance of the grid's lines of α

struct LearningPoint {
  std::int64_t bucket_us = 0, steps = 0;
  std::optional<double> live, base;
};
using LearningTrend = std::vector<LearningPoint>;

std::map<std::string, LearningTrend> trends_of(const LedgerReader& ledger) {
  const Sheet sheet = ledger.view("learning_trend");
  std::map<std::string, LearningTrend> trends;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    trends[row.text("topic")].push_back(
        {row.integer("bucket_us"), row.integer("optimizer_steps"), row.number("alpha_live"), row.number("alpha_base")});
  }
  return trends;
}

TimeSpan span_of(const std::map<std::string, LearningTrend>& trends, std::int64_t bucket_us) {
  TimeSpan span{INT64_MAX, INT64_MIN};
  for (const auto& [topic, trend] : trends) {
    span.from_us = std::min(span.from_us, trend.front().bucket_us);
    span.to_us = std::max(span.to_us, trend.back().bucket_us + bucket_us);
  }
  return span;
}

std::int64_t most_steps(const std::map<std::string, LearningTrend>& trends) {
  std::int64_t most = 1;
  for (const auto& [topic, trend] : trends) {
    for (const auto& point : trend) most = std::max(most, point.steps);
  }
  return most;
}

void draw_curve(SvgCanvas& canvas, const Plot& plot, const LearningTrend& trend,
                std::optional<double> LearningPoint::*which, const char* color, double width, const char* dashes) {
  std::vector<SvgPoint> points;
  for (const auto& point : trend) {
    if (point.*which) points.push_back({plot.x(point.bucket_us + plot.bucket_us / 2), plot.y(*(point.*which))});
  }
  if (points.size() == 1) canvas.circle(points.front(), width, color);
  if (points.size() > 1) canvas.polyline(points, color, width, dashes);
  if (points.empty()) return;
  const auto last = std::find_if(trend.rbegin(), trend.rend(), [&](const auto& point) { return point.*which; });
  canvas.text({plot.right + 6, points.back().y + 4}, share_text((*last).*which), {11, color, "start", true});
}

void draw_steps(SvgCanvas& canvas, const Plot& plot, const LearningTrend& trend) {
  canvas.line({plot.left, plot.bottom}, {plot.right, plot.bottom}, kAxis, 1);
  canvas.text({plot.left - 6, plot.top + 8}, std::to_string(static_cast<std::int64_t>(plot.range.high)),
              {10, kSoft, "end"});
  for (const auto& point : trend) {
    if (point.steps == 0) continue;
    const double left = plot.x(point.bucket_us), top = plot.y(static_cast<double>(point.steps));
    canvas.rectangle({left, top}, std::max(1.0, plot.x(point.bucket_us + plot.bucket_us) - left - 1), plot.bottom - top,
                     kSoft);
  }
}

void draw_marks(SvgCanvas& canvas, const Plot& plot, const std::string& topic, const std::vector<LedgerEvent>& events) {
  for (const auto& event : events) {
    if (event.topic != topic || event.at_us < plot.span.from_us || event.at_us > plot.span.to_us) continue;
    canvas.mark({plot.x(event.at_us), plot.top + kMarkStrip / 2}, event.kind, event_text(event));
  }
}

void draw_panel(SvgCanvas& canvas, const Plot& alpha, const Plot& steps, const std::string& topic,
                const LearningTrend& trend, const std::vector<LedgerEvent>& events) {
  canvas.begin_group("topic", topic);
  canvas.text({kMargin, alpha.top - 14}, short_topic(topic), {15, kInk, "start", true});
  for (double tick = 0; tick < 1.01; tick += kTick) {
    canvas.line({alpha.left, alpha.y(tick)}, {alpha.right, alpha.y(tick)}, kGrid, 1);
    canvas.text({alpha.left - 6, alpha.y(tick) + 4}, share_text(tick), {10, kSoft, "end"});
  }
  draw_curve(canvas, alpha, trend, &LearningPoint::base, kBase, 1.8, "6 5");
  draw_curve(canvas, alpha, trend, &LearningPoint::live, kLive, 2.8, "");
  draw_marks(canvas, alpha, topic, events);
  draw_steps(canvas, steps, trend);
  canvas.text({steps.left, steps.bottom + 16}, utc_text(alpha.span.from_us, "%m-%d %H:%M"), {10, kSoft, "start"});
  canvas.text({steps.right, steps.bottom + 16}, utc_text(alpha.span.to_us, "%m-%d %H:%M") + " UTC", {10, kSoft, "end"});
  canvas.end_group();
}

void draw_legend(SvgCanvas& canvas) {
  const double y = 96;
  canvas.line({kMargin, y - 4}, {kMargin + 30, y - 4}, kLive, 2.8);
  canvas.text({kMargin + 38, y}, "α of the live draft", {12, kInk, "start"});
  canvas.line({kMargin + 190, y - 4}, {kMargin + 220, y - 4}, kBase, 1.8, "6 5");
  canvas.text({kMargin + 228, y}, "α of the base draft, same text", {12, kInk, "start"});
  canvas.rectangle({kMargin + 436, y - 12}, 12, 12, kSoft);
  canvas.text({kMargin + 456, y}, "optimizer steps", {12, kInk, "start"});
}

std::string empty_svg() {
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, 200, kPaper);
  canvas.text({kMargin, 52}, "What learning did", {24, kInk, "start", true});
  canvas.text({kWidth / 2, 124}, "waiting for requests: nothing was learned in this period yet", {16, kSoft, "middle"});
  return canvas.document(kWidth, 200, "Learning report", "Nothing was learned in this period yet.");
}

}  // namespace

std::string learning_svg(const LedgerReader& ledger) {
  const auto trends = trends_of(ledger);
  if (trends.empty()) return empty_svg();
  const auto events = ledger_events(ledger);
  Plot alpha;
  alpha.left = kMargin + kAxisLabels;
  alpha.right = kWidth - kMargin - kEndLabels;
  alpha.head = kMarkStrip;
  alpha.bucket_us = std::max<std::int64_t>(ledger.bucket_us(), 60'000'000);  // a row covers a minute
  alpha.span = span_of(trends, alpha.bucket_us);
  Plot steps = alpha;
  steps.head = 0;
  steps.range = {0, static_cast<double>(most_steps(trends))};
  const double height = kHeader + kPanel * static_cast<double>(trends.size()) + kFooter;
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, height, kPaper);
  canvas.text({kMargin, 52}, "What learning did", {24, kInk, "start", true});
  draw_legend(canvas);
  double top = kHeader + kTitle;
  for (const auto& [topic, trend] : trends) {
    alpha.top = top;
    alpha.bottom = top + kAlphaHeight;
    steps.top = alpha.bottom + kBetween;
    steps.bottom = steps.top + kStepsHeight;
    draw_panel(canvas, alpha, steps, topic, trend, events);
    top += kPanel;
  }
  canvas.text({kMargin, height - 16}, "α = accepted / (accepted + first rejections), recent answers weighing more.",
              {12, kSoft, "start"});
  return canvas.document(kWidth, height, "Learning report",
                         "Acceptance rate of the live and the base draft on the same text, and optimizer steps, over "
                         "time, by topic, with what was published, refused and rolled back.");
}

}  // namespace slip
