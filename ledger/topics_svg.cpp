// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "common/counted.h"
#include "ledger/report_parts.h"
#include "ledger/svg_canvas.h"

namespace slip {
namespace {

constexpr double kWidth = 1040, kMargin = 32, kHeader = 128, kRow = 44, kFooter = 62;
constexpr double kPlotLeft = 216, kPlotRight = 700;
constexpr const char* kTitle = "What each topic's draft brings over the base draft";

double x_of(double alpha) {
  return kPlotLeft + (kPlotRight - kPlotLeft) * std::min(1.0, std::max(0.0, alpha));
}

void draw_scale(SvgCanvas& canvas, double top, double bottom) {
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double x = x_of(tenth / 10.0);
    canvas.line({x, top}, {x, bottom}, kGrid, 1);
    canvas.text({x, bottom + 18}, share_text(tenth / 10.0), {11, kSoft, "middle"});
  }
}

void draw_legend(SvgCanvas& canvas) {
  const double y = 100;
  canvas.circle({kMargin + 6, y - 4}, 5, kLive);
  canvas.text({kMargin + 18, y}, "α of the live draft", {12, kInk, "start"});
  canvas.line({kMargin + 146, y - 10}, {kMargin + 146, y + 2}, kBase, 2.4);
  canvas.text({kMargin + 156, y}, "α of the base draft, same text", {12, kInk, "start"});
  canvas.rectangle({kMargin + 348, y - 10}, 24, 12, kGrid);
  canvas.text({kMargin + 380, y}, "95 % of the gain", {12, kInk, "start"});
}

// Draws the base draft as a stroke, the live draft as a dot, and the gain's interval as a bar from the base draft on.
void draw_gain(SvgCanvas& canvas, const TopicFigures& topic, double y) {
  const auto live = topic.alpha_same_text ? topic.alpha_same_text : topic.alpha;
  if (topic.base_alpha && topic.gain_interval) {
    const double from = x_of(*topic.base_alpha + topic.gain_interval->low);
    const double to = x_of(*topic.base_alpha + topic.gain_interval->high);
    canvas.rectangle({from, y - 8}, std::max(1.0, to - from), 16, kGrid);
  }
  if (topic.base_alpha && live) canvas.line({x_of(*topic.base_alpha), y}, {x_of(*live), y}, kLive, 1.6);
  if (topic.base_alpha) canvas.line({x_of(*topic.base_alpha), y - 8}, {x_of(*topic.base_alpha), y + 8}, kBase, 2.4);
  if (live) canvas.circle({x_of(*live), y}, 5, kLive);
}

void draw_topic(SvgCanvas& canvas, const TopicFigures& topic, double y) {
  canvas.begin_group("topic", topic.topic);
  canvas.text({kMargin, y + 5}, short_topic(topic.topic), {15, kInk, "start", true});
  draw_gain(canvas, topic, y);
  const auto live = topic.alpha_same_text ? topic.alpha_same_text : topic.alpha;
  canvas.text({kPlotRight + 20, y + 5}, share_text(live), {14, kLive, "start", true});
  canvas.text({kPlotRight + 62, y - 2}, gain_text(topic.gain, topic.gain_interval), {13, kInk, "start"});
  std::string figures = counted(static_cast<std::uint64_t>(topic.requests), "request");
  if (!topic.draft.empty()) figures += " · " + proposer_text(topic.topic, topic.draft, topic.version);
  figures += " · " + event_counts(topic);
  canvas.text({kPlotRight + 62, y + 14}, figures, {11, kSoft, "start"});
  canvas.end_group();
}

}  // namespace

std::string topics_svg(const LedgerReader& ledger) {
  const std::vector<TopicFigures> topics = topic_figures(ledger);
  const double bottom = kHeader + kRow * static_cast<double>(std::max<std::size_t>(topics.size(), 1));
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, bottom + kFooter, kPaper);
  canvas.text({kMargin, 52}, kTitle, {24, kInk, "start", true});
  if (topics.empty()) {
    canvas.text({kWidth / 2, kHeader + 20}, "waiting for requests: none in this period yet", {16, kSoft, "middle"});
    return canvas.document(kWidth, bottom + kFooter, "Topics report", "No requests in this period yet.");
  }
  draw_legend(canvas);
  draw_scale(canvas, kHeader - 8, bottom);
  for (std::size_t i = 0; i < topics.size(); ++i) {
    draw_topic(canvas, topics[i], kHeader + kRow * (static_cast<double>(i) + 0.5));
  }
  canvas.text(
      {kMargin, bottom + kFooter - 14},
      "▲ published  ✕ refused  ▼ rolled back  ◆ drift. Both drafts on the same verified answers; intervals count "
      "requests, not tokens.",
      {12, kSoft, "start"});
  return canvas.document(kWidth, bottom + kFooter, "Topics report",
                         "Acceptance rate of each topic's live draft and of the base draft on the same text.");
}

}  // namespace slip
