// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_curves.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "common/file.h"
#include "ledger/svg_canvas.h"

namespace slip::bench {
namespace {

constexpr double kWidth = 720, kHeight = 360, kLeft = 56, kRight = 150, kTop = 40, kBottom = 44;
constexpr std::array kStrokes = {kLive, kBase, kInk, kSoft, kAxis};
constexpr std::array<const char*, 3> kDashes = {"", "6 3", "2 3"};

struct Plot {
  double most_requests = 1, most_alpha = 0.1;

  SvgPoint at(double requests, double alpha) const {
    return {kLeft + (kWidth - kLeft - kRight) * requests / most_requests,
            kHeight - kBottom - (kHeight - kTop - kBottom) * alpha / most_alpha};
  }
};

Plot frame_of(const std::map<std::string, ArmRun>& arms) {
  Plot plot;
  for (const auto& [name, run] : arms) {
    plot.most_alpha = std::max(plot.most_alpha, run.final_alpha);
    for (const ArmLook& look : run.looks) {
      plot.most_requests = std::max(plot.most_requests, static_cast<double>(look.requests));
      plot.most_alpha = std::max(plot.most_alpha, look.alpha);
    }
  }
  return plot;
}

void draw_axes(SvgCanvas& canvas, const Plot& plot, const std::string& title) {
  canvas.text({kLeft, kTop - 16}, title, {.size = 14, .bold = true});
  for (int i = 0; i <= 4; ++i) {
    const double alpha = plot.most_alpha * i / 4, requests = plot.most_requests * i / 4;
    const SvgPoint left = plot.at(0, alpha), right = plot.at(plot.most_requests, alpha), below = plot.at(requests, 0);
    canvas.line(left, right, i == 0 ? kAxis : kGrid, 1);
    std::ostringstream label;
    label.precision(2);
    label << alpha;
    canvas.text({left.x - 6, left.y + 4}, label.str(), {.fill = kSoft, .anchor = "end"});
    canvas.text({below.x, below.y + 16}, std::to_string(static_cast<long>(requests)),
                {.fill = kSoft, .anchor = "middle"});
  }
  canvas.text({kLeft, kHeight - 8}, "requests taken in; acceptance rate on prompts never streamed", {.fill = kSoft});
}

}  // namespace

void write_curves_csv(const std::filesystem::path& file, const std::map<std::string, ArmRun>& arms) {
  std::ostringstream out;
  out << "arm,requests,alpha\n";
  for (const auto& [name, run] : arms) {
    for (const ArmLook& look : run.looks) out << name << ',' << look.requests << ',' << look.alpha << '\n';
  }
  write_output_file(file, out.str());
}

void write_curves_svg(const std::filesystem::path& file, const std::string& title,
                      const std::map<std::string, ArmRun>& arms) {
  const Plot plot = frame_of(arms);
  SvgCanvas canvas;
  draw_axes(canvas, plot, title);
  std::size_t index = 0;
  for (const auto& [name, run] : arms) {
    const char* stroke = kStrokes[index % kStrokes.size()];
    const char* dashes = kDashes[index / kStrokes.size() % kDashes.size()];
    // The offline arm has no curve; its level is drawn as a line.
    std::vector<SvgPoint> points;
    for (const ArmLook& look : run.looks) points.push_back(plot.at(static_cast<double>(look.requests), look.alpha));
    if (points.empty()) points = {plot.at(0, run.final_alpha), plot.at(plot.most_requests, run.final_alpha)};
    canvas.polyline(points, stroke, 2, dashes);
    const double y = kTop + 16 * static_cast<double>(index);
    canvas.line({kWidth - kRight + 10, y}, {kWidth - kRight + 34, y}, stroke, 2, dashes);
    canvas.text({kWidth - kRight + 40, y + 4}, name, {});
    ++index;
  }
  write_output_file(file, canvas.document(kWidth, kHeight, title, "Acceptance rate over requests, a line an arm"));
}

}  // namespace slip::bench
