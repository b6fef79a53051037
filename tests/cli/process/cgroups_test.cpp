// SPDX-License-Identifier: Apache-2.0
#include "cli/process/cgroups.h"

#include <gtest/gtest.h>

#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

using Paths = std::vector<std::filesystem::path>;

TEST(OwnCgroups, AreTheOwnOneAndItsAncestorsTheNearestFirst) {
  const testing::TemporaryFolder folder;
  const auto own = [&](const char* membership) { return own_cgroups(folder.write("own", membership), "/top"); };
  EXPECT_EQ(own("4:memory:/other\n0::/a.slice/b.service\n"), (Paths{"/top/a.slice/b.service", "/top/a.slice", "/top"}));
  EXPECT_EQ(own("0::/\n"), Paths{"/top"}) << "in a container";
  EXPECT_EQ(own("4:memory:/other\n"), Paths{"/top"}) << "only v1";
  EXPECT_EQ(own_cgroups(folder.path() / "none", "/top"), Paths{"/top"}) << "no /proc";
}

}  // namespace
}  // namespace slip::cli
