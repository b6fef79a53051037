// SPDX-License-Identifier: Apache-2.0
#include "common/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

namespace slip {
namespace {

TEST(NearestName, IsTheOneWithTheFewestEdits) {
  constexpr std::array<std::string_view, 4> kNames = {"max_tokens", "min_tokens", "n", "stop"};
  EXPECT_EQ(nearest_name("max_token", kNames), "max_tokens");
  EXPECT_EQ(nearest_name("min-tokens", kNames), "min_tokens");
  EXPECT_EQ(nearest_name("stpo", kNames), "stop");
  EXPECT_EQ(nearest_name("weather", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "") << "n is one edit away, but nothing like it";
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("stop", {}), "");
}

// By edits alone "tpot" is three away from "tpot_ms", so nothing was proposed.
TEST(NearestName, AnEndThatIsMissingIsNear) {
  constexpr std::array<std::string_view, 3> kNames = {"tpot_ms", "ttft_ms", "e2e_ms"};
  EXPECT_EQ(nearest_name("tpot", kNames), "tpot_ms");
  EXPECT_EQ(nearest_name("e2e", kNames), "e2e_ms");
  EXPECT_EQ(nearest_name("t", kNames), "");
}

}  // namespace
}  // namespace slip
