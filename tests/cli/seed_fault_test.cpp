// SPDX-License-Identifier: Apache-2.0
#include "cli/seed_fault.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace slip::cli {
namespace {

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
