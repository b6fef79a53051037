// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

std::string lossy(std::string bytes) {
  std::string out;
  take_whole_characters(bytes, out);
  return out + (bytes.empty() ? "" : "…");
}

TEST(Utf8Test, KeepsWholeCharactersAndHoldsBackHalves) {
  EXPECT_EQ(lossy("aé日😀"), "aé日😀");
  EXPECT_EQ(lossy("a\xC3"), "a…");
  EXPECT_EQ(lossy("\xE6\x97"), "…");
  EXPECT_EQ(lossy("\xF0\x9F\x98"), "…");
}

// The cases of the Unicode standard's section on U+FFFD substitution of maximal subparts (tables 3-8 to 3-11).
TEST(Utf8Test, ReplacesMaximalIllFormedParts) {
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST(Utf8Test, ValidPrefixEndsAtTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_prefix("plain"), 5U);
  EXPECT_EQ(valid_utf8_prefix("é\xFFx"), 2U);
  EXPECT_EQ(valid_utf8_prefix("x\xE6\x97"), 1U);
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
}

}  // namespace
}  // namespace slip
