// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(Error, CarriesCodeMessageHintAndParam) {
  const Error error(ErrorCode::kTooLarge, "too long", "shorten it", "prompt");
  EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
  EXPECT_EQ(error.message(), "too long");
  EXPECT_STREQ(error.what(), "too long");
  EXPECT_EQ(error.hint(), "shorten it");
  EXPECT_EQ(error.param(), "prompt");
}

TEST(SlipCheck, LetsTheTruthPass) {
  SLIP_CHECK(1 + 1 == 2, "arithmetic");
}

TEST(SlipCheckNegative, AbortsNamingConditionAndReason) {
  EXPECT_DEATH(SLIP_CHECK(1 + 1 == 3, "somebody miscounted"), "1 \\+ 1 == 3.*\n.*somebody miscounted");
}

}  // namespace
}  // namespace slip
