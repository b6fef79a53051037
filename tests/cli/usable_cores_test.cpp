// SPDX-License-Identifier: Apache-2.0
#include "cli/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

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

}  // namespace
}  // namespace slip::cli
