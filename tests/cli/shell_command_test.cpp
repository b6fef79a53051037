// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_command.h"

#include <gtest/gtest.h>

#include <vector>

namespace slip::cli {
namespace {

std::string resuming(const std::vector<std::string>& words) {
  std::string arguments;
  for (const std::string& word : words) arguments += word + '\0';
  return resuming_command(arguments);
}

TEST(ShellCommand, QuotesWordsThatAShellWouldChange) {
  EXPECT_EQ(shell_quoted("drafts/base-2.1"), "drafts/base-2.1");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("new draft"), "'new draft'");
  EXPECT_EQ(shell_quoted("$HOME/it's"), R"('$HOME/it'\''s')");
}

// Regression: with --force=true, which the option's parser takes too, the command began anew.
TEST(ShellCommand, AWarmupGoesOnWithItsOwnCommandWithoutForce) {
  EXPECT_EQ(resuming({"build/slipstream", "warmup", "--force", "--out", "new draft"}),
            "build/slipstream warmup --out 'new draft'");
  EXPECT_EQ(resuming({"slipstream", "warmup", "--force=true", "--out", "x", ""}), "slipstream warmup --out x ''");
  EXPECT_EQ(resuming({}), "");
}

}  // namespace
}  // namespace slip::cli
