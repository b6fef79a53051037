// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace slip {
namespace {

TEST(ByteAlphabetTest, EveryByteHasItsOwnSpelling) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = spelling_of_byte(static_cast<unsigned char>(byte));
    EXPECT_TRUE(seen.insert(spelling).second);
    EXPECT_EQ(bytes_of_spelling(spelling), std::string(1, static_cast<char>(byte)));
  }
}

TEST(ByteAlphabetTest, KnownSpellings) {
  EXPECT_EQ(spelling_of_byte(' '), "Ġ");
  EXPECT_EQ(spelling_of_byte('\n'), "Ċ");
  EXPECT_EQ(spelling_of_byte('a'), "a");
  EXPECT_EQ(spelling_of_byte(0xFF), "ÿ");
  EXPECT_EQ(spelling_of_byte(0xAD), "Ń");  // the last stand-in
  EXPECT_EQ(bytes_of_spelling("ĠæĹ¥"), " 日");
}

TEST(ByteAlphabetTest, RefusesOtherLetters) {
  for (const char* spelling : {" ", "日", "😀", "\n", "\xC4", "a\xC3", "ń"}) {
    EXPECT_EQ(bytes_of_spelling(spelling), std::nullopt) << spelling;
  }
}

}  // namespace
}  // namespace slip
