// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/load_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "ledger/svg_canvas.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr double kWidth = 960, kHeight = 560, kLeft = 92, kRight = 790, kTop = 104, kBottom = 480;
constexpr const char* kColours[] = {kLive, kBase, kSoft, kInk};

// Latency has a logarithmic axis: an overloaded arm's is a hundred times the others'.
struct Axes {
  double least_rate, most_rate, least_ms, most_ms;
  double x(double rate) const {
    return kLeft + (kRight - kLeft) * (rate - least_rate) / std::max(1e-9, most_rate - least_rate);
  }
  double y(double ms) const {
    const double share = std::log(ms / least_ms) / std::log(most_ms / least_ms);
    return kBottom - (kBottom - kTop) * std::clamp(share, 0.0, 1.0);
  }
};

struct Curve {
  std::string arm;
  std::vector<double> rates, mean_ms, p99_ms;
};

std::vector<Curve> curves_of(const json& loads) {
  std::vector<Curve> curves;
  for (const json& load : loads) {
    for (const auto& item : load["arms"].items()) {
      const std::string& name = item.key();
      const json& arm = item.value();
      auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& one) { return one.arm == name; });
      if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{name, {}, {}, {}});
      if (!arm["e2e_ms"]["mean"].is_number()) continue;
      curve->rates.push_back(load["rate_per_s"].get<double>());
      curve->mean_ms.push_back(std::max(1e-3, arm["e2e_ms"]["mean"].get<double>()));
      curve->p99_ms.push_back(std::max(1e-3, arm["e2e_ms"]["p99"].get<double>()));
    }
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.rates.empty(); });
  return curves;
}

Axes axes_of(const std::vector<Curve>& curves) {
  Axes axes{1e300, 0, 1e300, 0};
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < curve.rates.size(); ++i) {
      axes.least_rate = std::min(axes.least_rate, curve.rates[i]);
      axes.most_rate = std::max(axes.most_rate, curve.rates[i]);
      axes.least_ms = std::min(axes.least_ms, curve.mean_ms[i]);
      axes.most_ms = std::max(axes.most_ms, curve.p99_ms[i]);
    }
  }
  const double decade = std::pow(10, std::floor(std::log10(axes.least_ms)));
  for (const double step : {5.0, 2.0, 1.0}) {
    if (step * decade > axes.least_ms) continue;
    axes.least_ms = step * decade;
    break;
  }
  axes.most_ms = std::max(10 * axes.least_ms, axes.most_ms);
  return axes;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

void draw_axes(SvgCanvas& canvas, const Axes& axes, const std::vector<Curve>& curves) {
  for (double decade = std::pow(10, std::floor(std::log10(axes.least_ms))); decade <= axes.most_ms; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double ms = step * decade;
      if (ms < axes.least_ms || ms > axes.most_ms) continue;
      canvas.line({kLeft, axes.y(ms)}, {kRight, axes.y(ms)}, kGrid, 1);
      canvas.text({kLeft - 10, axes.y(ms) + 4}, short_number(ms), {12, kSoft, "end"});
    }
  }
  canvas.line({kLeft, kBottom}, {kRight, kBottom}, kAxis, 1);
  for (const double rate : curves.front().rates) {
    canvas.text({axes.x(rate), kBottom + 20}, short_number(rate), {12, kSoft, "middle"});
  }
  canvas.text({(kLeft + kRight) / 2, kBottom + 44}, "requests a second", {13, kInk, "middle"});
}

void draw_curve(SvgCanvas& canvas, const Axes& axes, const Curve& curve, const char* colour) {
  std::vector<SvgPoint> mean, p99;
  for (std::size_t i = 0; i < curve.rates.size(); ++i) {
    mean.push_back({axes.x(curve.rates[i]), axes.y(curve.mean_ms[i])});
    p99.push_back({axes.x(curve.rates[i]), axes.y(curve.p99_ms[i])});
  }
  canvas.begin_group("arm", curve.arm);
  canvas.polyline(p99, colour, 1.4, "5 4");
  canvas.polyline(mean, colour, 2.4);
  for (const SvgPoint& point : mean) canvas.circle(point, 3.4, colour);
  canvas.end_group();
}

}  // namespace

std::string load_svg(const json& loads, const std::string& machine) {
  SvgCanvas canvas;
  canvas.rectangle({0, 0}, kWidth, kHeight, kPaper);
  canvas.text({kLeft - 60, 44}, "Latency of a whole answer over the load, in ms", {22, kInk, "start", true});
  canvas.text({kLeft - 60, 70}, "simulated: " + machine + ". Lines: mean; dashes: p99", {13, kSoft, "start"});
  const std::vector<Curve> curves = curves_of(loads);
  if (!curves.empty()) {
    const Axes axes = axes_of(curves);
    draw_axes(canvas, axes, curves);
    for (std::size_t i = 0; i < curves.size(); ++i) {
      const char* const colour = kColours[i % std::size(kColours)];
      draw_curve(canvas, axes, curves[i], colour);
      const double y = kTop + 24.0 * static_cast<double>(i);
      canvas.line({kRight + 24, y}, {kRight + 52, y}, colour, 2.4);
      canvas.text({kRight + 60, y + 5}, curves[i].arm, {14, kInk, "start"});
    }
  }
  return canvas.document(kWidth, kHeight, "Simulated load", "Mean and p99 latency of each arm over the load.");
}

}  // namespace slip
