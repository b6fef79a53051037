// SPDX-License-Identifier: Apache-2.0
#include "cli/process/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <thread>

#include "cli/process/cgroups.h"
#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

TEST(UsableCores, AreThoseOfTheAffinityMask) {
  const int all = usable_cores();
  EXPECT_GE(all, 1);
  int one = 0;
  bool limited = true;
  // In a thread of its own, whose mask ends with it.
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    one = usable_cores();
    limited = limited_by_quota();
  }).join();
  EXPECT_EQ(one, 1);
  if (all > 1) {
    EXPECT_FALSE(limited) << "a quota of more than a core does not limit one CPU";
  }
  EXPECT_EQ(usable_cores(), all);
}

// Bug: only the root's quota counted. systemd writes CPUQuota= into the service's own cgroup, or into a slice above it.
TEST(UsableCores, TheLeastQuotaOfTheOwnCgroupAndItsAncestorsCounts) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "system.slice/slip.service");
  const auto membership = folder.write("membership", "0::/system.slice/slip.service\n");
  const auto quota = [&] { return cpu_quota(own_cgroups(membership, folder.path())); };
  EXPECT_EQ(quota(), std::numeric_limits<double>::infinity());
  folder.write("system.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  folder.write("system.slice/slip.service/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 2.5);
  folder.write("system.slice/slip.service/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  folder.write("cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1.0);
}

// A team of 1,000 threads on two cores never got through the first step: serve did not come up, generate hung.
TEST(CheckThreads, FourForEachCoreAreTheMostAndSixteenAreAllowedAnywhere) {
  const int most = std::max(16, 4 * usable_cores());
  EXPECT_NO_THROW(check_threads(0, "x"));
  EXPECT_NO_THROW(check_threads(most, "x"));
  try {
    check_threads(most + 1, "model.threads");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.param(), "model.threads");
    EXPECT_TRUE(error.message().starts_with("model.threads: " + std::to_string(most + 1))) << error.message();
  }
}

}  // namespace
}  // namespace slip::cli
