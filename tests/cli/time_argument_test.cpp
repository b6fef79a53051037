// SPDX-License-Identifier: Apache-2.0
#include "cli/time_argument.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kNow = 1'763'719'200 * kSecond;  // 2025-11-21T10:00:00Z

TEST(TimeArgument, InstantsAreDatesAgesOrNow) {
  const auto instant = [](const std::string& text) { return parse_instant_us(text, "--before", kNow); };
  EXPECT_EQ(instant("now"), kNow);
  EXPECT_EQ(instant("90s"), kNow - 90 * kSecond);
  EXPECT_EQ(instant("7d"), kNow - std::int64_t{7} * 86400 * kSecond);
  EXPECT_EQ(instant("2025-11-21"), kNow - 10 * 3600 * kSecond);
  EXPECT_EQ(instant("2025-11-21T10:00"), kNow);
  EXPECT_EQ(instant("2025-11-21T10:00Z"), kNow);
  EXPECT_EQ(instant("2025-11-21T10:00:07"), kNow + 7 * kSecond);
  EXPECT_EQ(instant("2025-11-21T10:00:07Z"), kNow + 7 * kSecond);
  EXPECT_EQ(instant("1969-12-31T23:59:59Z"), -kSecond);
}

TEST(TimeArgument, WhatIsNoInstantIsRefusedByItsFlag) {
  for (const char* text : {"", "7", "-7d", "0s", "yesterday", "2025-02-30", "2025-13-01", "2025-11-21 10:00",
                           "21.11.2025", "26-11-20", "2026-1-20", "2026-11-2", " 2026-11-20", "2026- 1-20",
                           "2026-11-20T1:00", "2025-11-21T25:00", "2025-11-21T10:00+01:00", "99999999999999999999d"}) {
    try {
      parse_instant_us(text, "--before", kNow);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.param(), "--before");
      EXPECT_EQ(error.message().rfind("--before takes", 0), 0U) << error.message();
    }
  }
  EXPECT_THROW(parse_duration_us("now", "--since"), Error);
}

}  // namespace
}  // namespace slip::cli
