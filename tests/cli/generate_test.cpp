// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command.h"
#include "common/error.h"

namespace slip::cli {
namespace {

const std::string kTarget = std::string(SLIPSTREAM_SOURCE_DIR) + "/checkpoints/demo/target";

// What `slipstream generate` prints for a sampled answer with a seed.
std::string generated(const std::string& more) {
  CLI::App app;
  add_generate(app);
  ::testing::internal::CaptureStdout();
  try {
    app.parse("generate --target " + kTarget + " --prompt 'Mira has' --max-tokens 8 --temperature 1 --seed 3 " + more);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

TEST(Generate, TopKOfMinusOneOrNoneIsOff) {
  const std::string all = generated("");
  EXPECT_NE(all, "");
  EXPECT_EQ(generated("--top-k -1"), all);
  EXPECT_EQ(generated("--top-k 0"), all);
  EXPECT_NE(generated("--top-k 1"), all) << "or the test says nothing";
  EXPECT_THROW(generated("--top-k -2"), CLI::ValidationError);
}

// It started as many and hung.
TEST(Generate, MoreThreadsThanMakeSenseAreRefusedByName) {
  try {
    generated("--threads 100000");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "--threads");
  }
}

}  // namespace
}  // namespace slip::cli
