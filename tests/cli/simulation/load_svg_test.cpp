// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/load_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slip {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json load(double rate, const json& mean_ms) {
  const json arm = {{"e2e_ms", {{"mean", mean_ms}, {"p99", mean_ms}}}};
  return {{"rate_per_s", rate}, {"arms", {{"auto", arm}, {"k<3>", arm}}}};
}

LoadDrawing latency(const std::string& machine) {
  return {"name", "title", machine, "description", {{.line = "/e2e_ms/mean", .dashes = "/e2e_ms/p99"}}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The widths of an arm's curves; axes are thinner. The legend has a line for each of the two arms.
constexpr const char *kLine = R"(stroke-width="2.4")", *kDashes = R"(stroke-width="1.4")";
constexpr std::size_t kLegend = 2;

TEST(LoadSvg, DrawsEachArmOverTheLoads) {
  const std::string svg = load_svg(json::array({load(5, 80), load(20, 4000)}), latency("a <machine>"));
  EXPECT_THAT(svg, HasSubstr("a &lt;machine&gt;"));
  EXPECT_THAT(svg, HasSubstr("k&lt;3&gt;"));
  for (const char* label : {">5<", ">20<", ">50<", ">2000<"}) EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, Not(HasSubstr(">5000<"))) << "beyond the slowest";
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LoadSvg, EachPanelHasItsOwnFigures) {
  json loads = json::array({load(5, 80), load(20, 90)});
  for (std::size_t i = 0; i < 2; ++i) loads[i]["arms"]["auto"]["goodput_per_s"] = 4 + 8 * static_cast<int>(i);
  LoadDrawing drawing = latency("m");
  drawing.panels.push_back({.title = "met", .line = "/goodput_per_s", .dashes = "", .logarithmic = false});
  drawing.panels.push_back({.title = "none has it", .line = "/absent", .dashes = "/ttft_ms/p99"});
  const std::string svg = load_svg(loads, drawing);
  EXPECT_EQ(count(svg, kLine), 2U + 1 + kLegend) << "only one arm has goodput";
  EXPECT_EQ(count(svg, kDashes), 2U);
  for (const char* label : {">0<", ">2<", ">12<", ">met<"}) EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, Not(HasSubstr("none has it")));
}

TEST(LoadSvg, LeavesOutALoadThatWasNotAnswered) {
  const std::string svg = load_svg(json::array({load(5, nullptr)}), latency("m"));
  EXPECT_EQ(count(svg, kLine), kLegend);
  EXPECT_EQ(count(svg, kDashes), 0U);
  EXPECT_THAT(load_svg(json::array({load(5, 0), load(6, nullptr)}), latency("m")), Not(HasSubstr("inf")))
      << "0 has no logarithm";
}

}  // namespace
}  // namespace slip
