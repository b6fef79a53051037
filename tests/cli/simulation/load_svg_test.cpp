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

TEST(LoadSvg, DrawsEachArmOverTheLoads) {
  const std::string svg = load_svg(json::array({load(5, 80), load(20, 4000)}), "a <machine>");
  EXPECT_THAT(svg, HasSubstr("a &lt;machine&gt;"));
  EXPECT_THAT(svg, HasSubstr("k&lt;3&gt;"));
  for (const char* label : {">5<", ">20<", ">50<", ">2000<"}) EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, Not(HasSubstr(">5000<"))) << "beyond the slowest";
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LoadSvg, LeavesOutALoadThatWasNotAnswered) {
  const std::string svg = load_svg(json::array({load(5, nullptr)}), "m");
  EXPECT_THAT(svg, Not(HasSubstr("polyline")));
  EXPECT_THAT(load_svg(json::array({load(5, 0), load(6, nullptr)}), "m"), Not(HasSubstr("inf")))
      << "0 has no logarithm";
}

}  // namespace
}  // namespace slip
