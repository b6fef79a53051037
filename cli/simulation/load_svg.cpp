// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/load_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "ledger/svg_canvas.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr double kWidth = 960, kLeft = 92, kRight = 790, kTop = 104, kBelow = 80, kBetween = 90;
constexpr double kAlone = 376, kOneOfMany = 200;  // the height of a panel
constexpr double kLeastLogarithm = 1e-3;          // 0 has none
constexpr const char* kColours[] = {kLive, kBase, kSoft, kInk};

// A figure of one arm over the loads that have it.
struct Series {
  std::vector<double> rates, values;
};

struct Curve {
  std::string arm;
  Series line, dashes;
};

struct Axes {
  double least_rate = 0, most_rate = 0, least = 0, most = 0, top = 0, bottom = 0;
  bool logarithmic = true;

  double x(double rate) const {
    return kLeft + (kRight - kLeft) * (rate - least_rate) / std::max(1e-9, most_rate - least_rate);
  }
  double y(double value) const {
    const double share =
        logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
    return bottom - (bottom - top) * std::clamp(share, 0.0, 1.0);
  }
};

Series series_of(const json& loads, const std::string& arm, const std::string& figure, bool logarithmic) {
  Series series;
  if (figure.empty()) return series;
  const json::json_pointer at(figure);
  for (const json& load : loads) {
    const auto figures = load.at("arms").find(arm);
    if (figures == load.at("arms").end() || !figures->contains(at) || !figures->at(at).is_number()) continue;
    const double value = figures->at(at).get<double>();
    series.rates.push_back(load.at("rate_per_s").get<double>());
    series.values.push_back(logarithmic ? std::max(kLeastLogarithm, value) : value);
  }
  return series;
}

std::vector<std::string> arms_of(const json& loads) {
  std::vector<std::string> arms;
  for (const json& load : loads) {
    for (const auto& item : load.at("arms").items()) {
      if (std::find(arms.begin(), arms.end(), item.key()) == arms.end()) arms.push_back(item.key());
    }
  }
  return arms;
}

// The greatest of 1, 2 and 5 times a power of ten that is at most `value` > 0.
double round_below(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {5.0, 2.0}) {
    if (step * decade <= value) return step * decade;
  }
  return decade;
}

Axes axes_of(const std::vector<Curve>& curves, bool logarithmic) {
  Axes axes{.least_rate = 1e300, .least = 1e300, .logarithmic = logarithmic};
  for (const Curve& curve : curves) {
    for (const Series* series : {&curve.line, &curve.dashes}) {
      for (std::size_t i = 0; i < series->rates.size(); ++i) {
        axes.least_rate = std::min(axes.least_rate, series->rates[i]);
        axes.most_rate = std::max(axes.most_rate, series->rates[i]);
        axes.least = std::min(axes.least, series->values[i]);
        axes.most = std::max(axes.most, series->values[i]);
      }
    }
  }
  if (logarithmic) {
    axes.least = round_below(axes.least);
    axes.most = std::max(10 * axes.least, axes.most);
  } else {
    axes.least = 0;
    axes.most = std::max(kLeastLogarithm, axes.most);
  }
  return axes;
}

std::vector<double> ticks_of(const Axes& axes) {
  std::vector<double> ticks;
  if (!axes.logarithmic) {
    const double step = round_below(axes.most / 3);
    for (int i = 0; i * step <= axes.most; ++i) ticks.push_back(i * step);
    return ticks;
  }
  for (double decade = std::pow(10, std::floor(std::log10(axes.least))); decade <= axes.most; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (step * decade >= axes.least && step * decade <= axes.most) ticks.push_back(step * decade);
    }
  }
  return ticks;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

void draw_axes(SvgCanvas& canvas, const Axes& axes, const json& loads) {
  for (const double tick : ticks_of(axes)) {
    canvas.line({kLeft, axes.y(tick)}, {kRight, axes.y(tick)}, kGrid, 1);
    canvas.text({kLeft - 10, axes.y(tick) + 4}, short_number(tick), {12, kSoft, "end"});
  }
  canvas.line({kLeft, axes.bottom}, {kRight, axes.bottom}, kAxis, 1);
  for (const json& load : loads) {
    const double rate = load.at("rate_per_s").get<double>();
    if (rate < axes.least_rate || rate > axes.most_rate) continue;
    canvas.text({axes.x(rate), axes.bottom + 20}, short_number(rate), {12, kSoft, "middle"});
  }
}

void draw_curve(SvgCanvas& canvas, const Axes& axes, const Curve& curve, const char* colour) {
  const auto points_of = [&](const Series& series) {
    std::vector<SvgPoint> points;
    for (std::size_t i = 0; i < series.rates.size(); ++i)
      points.push_back({axes.x(series.rates[i]), axes.y(series.values[i])});
    return points;
  };
  const auto line = points_of(curve.line), dashes = points_of(curve.dashes);
  canvas.begin_group("arm", curve.arm);
  if (!dashes.empty()) canvas.polyline(dashes, colour, 1.4, "5 4");
  if (!line.empty()) canvas.polyline(line, colour, 2.4);
  for (const SvgPoint& point : line) canvas.circle(point, 3.4, colour);
  canvas.end_group();
}

// Nothing of a panel whose figures no load has.
void draw_panel(SvgCanvas& canvas, const json& loads, const LoadPanel& panel, double top, double height) {
  std::vector<Curve> curves;
  bool any = false;
  for (const std::string& arm : arms_of(loads)) {
    curves.push_back({arm, series_of(loads, arm, panel.line, panel.logarithmic),
                      series_of(loads, arm, panel.dashes, panel.logarithmic)});
    any |= !curves.back().line.values.empty() || !curves.back().dashes.values.empty();
  }
  if (!any) return;
  Axes axes = axes_of(curves, panel.logarithmic);
  axes.top = top;
  axes.bottom = top + height;
  if (!panel.title.empty()) canvas.text({kLeft - 60, top - 16}, panel.title, {14, kInk, "start", true});
  draw_axes(canvas, axes, loads);
  for (std::size_t i = 0; i < curves.size(); ++i)
    draw_curve(canvas, axes, curves[i], kColours[i % std::size(kColours)]);
}

void draw_legend(SvgCanvas& canvas, const std::vector<std::string>& arms) {
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const double y = kTop + 24.0 * static_cast<double>(i);
    canvas.line({kRight + 24, y}, {kRight + 52, y}, kColours[i % std::size(kColours)], 2.4);
    canvas.text({kRight + 60, y + 5}, arms[i], {14, kInk, "start"});
  }
}

}  // namespace

std::string load_svg(const json& loads, const LoadDrawing& drawing) {
  const auto n = static_cast<double>(drawing.panels.size());
  const double panel_height = drawing.panels.size() == 1 ? kAlone : kOneOfMany;
  const double bottom = kTop + n * panel_height + (n - 1) * kBetween, height = bottom + kBelow;
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, height, kPaper);
  canvas.text({kLeft - 60, 44}, drawing.title, {22, kInk, "start", true});
  canvas.text({kLeft - 60, 70}, drawing.subtitle, {13, kSoft, "start"});
  double top = kTop;
  for (const LoadPanel& panel : drawing.panels) {
    draw_panel(canvas, loads, panel, std::exchange(top, top + panel_height + kBetween), panel_height);
  }
  draw_legend(canvas, arms_of(loads));
  canvas.text({(kLeft + kRight) / 2, bottom + 44}, "requests a second", {13, kInk, "middle"});
  return canvas.document(kWidth, height, drawing.name, drawing.description);
}

}  // namespace slip
