// SPDX-License-Identifier: Apache-2.0
#include "cli/process/usable_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

// Bug: the limit of a container in cgroup v1 was not seen, so the system ended the process in the middle of loading.
TEST(UsableMemory, TheLeastLimitOfEitherCgroupVersionHolds) {
  const testing::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("memory.max", "max\n"), folder.write("memory.limit_in_bytes", "268435456\n"),
      folder.write("unlimited", "9223372036854771712\n"), folder.path() / "absent"};
  EXPECT_EQ(least_limit(files), 268435456U);
  EXPECT_EQ(least_limit(std::span(files).first(1)), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace slip::cli
