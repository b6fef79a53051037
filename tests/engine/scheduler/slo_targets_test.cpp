// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/slo_targets.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

// Regression: targets of options were rounded down, so 64.1 ms became 64,099 µs. Those of requests were not.
TEST(SloTargets, MillisecondsBecomeTheNearestMicroseconds) {
  EXPECT_EQ(us_of_ms(64.1), 64'100);
  EXPECT_EQ(us_of_ms(0.0014), 1);
  EXPECT_EQ(us_of_ms(0), 0);
  const SloTargets targets = slo_targets_of_ms(2.01, 64.1);
  EXPECT_EQ(targets.tpot_us, 2'010);
  EXPECT_EQ(targets.ttft_us, 64'100);
  EXPECT_EQ(targets.e2e_us, 0);
}

}  // namespace
}  // namespace slip
