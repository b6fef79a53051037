// SPDX-License-Identifier: Apache-2.0
#include "text/code_points.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(CodePointsTest, FirstAndLastAreTheSameCharacter) {
  for (const std::int32_t c : {0x0, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFF}) {
    std::string text;
    append_utf8(c, text);
    EXPECT_EQ(first_code_point(text + "x").value, c);
    EXPECT_EQ(first_code_point(text + "x").bytes, text.size());
    EXPECT_EQ(last_code_point("é" + text).value, c);
    EXPECT_EQ(last_code_point("é" + text).bytes, text.size());
  }
}

TEST(CodePointsTest, ABrokenByteIsACharacterByItself) {
  for (const char* text : {"\xFF", "\x80", "\xE6\x97", "\xC0\x80"}) {
    EXPECT_EQ(first_code_point(text).value, CodePoint::kInvalid);
    EXPECT_EQ(first_code_point(text).bytes, 1U);
    EXPECT_EQ(last_code_point(text).value, CodePoint::kInvalid);
    EXPECT_EQ(last_code_point(text).bytes, 1U);
  }
  EXPECT_FALSE(is_word(CodePoint::kInvalid) || is_number(CodePoint::kInvalid) || is_white_space(CodePoint::kInvalid) ||
               is_punctuation(CodePoint::kInvalid));
}

TEST(CodePointsTest, Properties) {
  EXPECT_TRUE(is_white_space(0x3000) && is_white_space('\n') && is_white_space(0x85));
  EXPECT_FALSE(is_white_space(0x180E) || is_white_space(0x200B));
  EXPECT_TRUE(is_number(0x663) && is_number(0xBD) && is_number(0x2167));
  EXPECT_TRUE(is_punctuation('+') && is_punctuation('`') && is_punctuation(0xAB));
  EXPECT_FALSE(is_punctuation(0xD7) || is_punctuation('a') || is_punctuation(' '));
  EXPECT_TRUE(is_word('_') && is_word(0x301) && is_word(0x65E5) && is_word('7'));
  EXPECT_FALSE(is_word('-') || is_word(' ') || is_word(0xBD));
}

}  // namespace
}  // namespace slip
