// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace slip::cli {
namespace {

TEST(VersionTest, NamesWhatABugReportNeeds) {
  const std::string text = version_text();
  EXPECT_TRUE(text.starts_with("slipstream 0."));
  for (const char* line :
       {"\ncommit: ", "\ncompiler: ", "\nLibTorch: 2.", "\nCUDA: ", "\nCPU features: ", "\nmatrix instructions: "}) {
    const std::size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << line;
    EXPECT_GT(text.find_first_of('\n', at + 1), at + std::string(line).size()) << line << "says nothing";
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

}  // namespace
}  // namespace slip::cli
