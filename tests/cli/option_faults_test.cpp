// SPDX-License-Identifier: Apache-2.0
#include "cli/option_faults.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace slip::cli {
namespace {

TEST(CountFault, CountsBeginAtOne) {
  for (const char* count : {"1", "96", "2147483647"}) EXPECT_EQ(count_fault(count), "") << count;
  for (const char* none : {"0", "-1", "2147483648", "1.5", "1e3", "", " 1", "one"}) {
    EXPECT_NE(count_fault(none), "") << none;
  }
}

// The message named the largest double, with 309 digits.
TEST(CountFault, AnOptionSaysWhichCountsItTakes) {
  CLI::App app;
  add_generate(app);
  try {
    app.parse("generate --target t --prompt p --max-tokens 0");
    FAIL() << "0 tokens were accepted";
  } catch (const CLI::ValidationError& error) {
    EXPECT_STREQ(error.what(), "--max-tokens: '0' is no whole number from 1 to 2^31 - 1");
  }
}

// CLI11's ranges let NaN pass.
TEST(NanFault, NoRangeHasIt) {
  for (const char* text : {"nan", "-nan", "NaN", "nan(7)"}) EXPECT_NE(nan_fault(text), "") << text;
  for (const char* text : {"0", "-1.5", "1e9", "inf"}) EXPECT_EQ(nan_fault(text), "") << text;
  CLI::App app;
  add_generate(app);
  EXPECT_THROW(app.parse("generate --target t --prompt p --max-tokens 1 --temperature nan"), CLI::ValidationError);
}

TEST(SeedFault, SeedsHaveSixtyFourBits) {
  for (const char* seed : {"0", "7", "-1", "-9223372036854775808", "18446744073709551615"}) {
    EXPECT_EQ(seed_fault(seed), "") << seed;
  }
  for (const char* none : {"18446744073709551616", "-9223372036854775809", "99999999999999999999999", "1.5", "1e3", "",
                           " 1", "0x10", "one"}) {
    EXPECT_NE(seed_fault(none), "") << none;
  }
}

// 2^64 was taken for 2^64 - 1.
TEST(SeedFault, AnOptionWithALargerSeedIsRefused) {
  CLI::App app;
  add_generate(app);
  EXPECT_THROW(app.parse("generate --target t --prompt p --max-tokens 1 --seed 18446744073709551616"),
               CLI::ValidationError);
}

}  // namespace
}  // namespace slip::cli
