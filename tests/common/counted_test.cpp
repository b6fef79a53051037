// SPDX-License-Identifier: Apache-2.0
#include "common/counted.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

// "1 answers" and "1 requests" stood in logs and reports.
TEST(Counted, OneThingIsSingular) {
  EXPECT_EQ(counted(0, "answer"), "0 answers");
  EXPECT_EQ(counted(1, "answer"), "1 answer");
  EXPECT_EQ(counted(2, "answer"), "2 answers");
}

}  // namespace
}  // namespace slip
