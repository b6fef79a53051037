// SPDX-License-Identifier: Apache-2.0
#include "common/percent_decoding.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(PercentDecoding, EscapesBecomeTheirBytes) {
  EXPECT_EQ(percent_decoded("org%2Fname"), "org/name");
  EXPECT_EQ(percent_decoded("%41%c3%a9b%25"),
            "A\xc3\xa9"
            "b%");
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("plain+text"), "plain+text");
}

TEST(PercentDecoding, APercentSignNeedsTwoDigits) {
  for (const char* text : {"%", "a%4", "%zz", "%4g", "%-1", "%+1", "% 1", "%0x"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace slip
