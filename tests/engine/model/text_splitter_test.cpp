// SPDX-License-Identifier: Apache-2.0
#include "engine/model/text_splitter.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(const std::string& pattern, std::string_view text) {
  const TextSplitter splitter(pattern);
  Pieces pieces;
  splitter.split(text, pieces);
  return pieces;
}

TEST(TextSplitterTest, MatchesAndWhatLiesBetweenArePieces) {
  EXPECT_EQ(split(R"(\p{L}+)", "ab1,cd"), (Pieces{"ab", "1,", "cd"}));
  EXPECT_EQ(split(R"(\p{L}+)", "..ab.."), (Pieces{"..", "ab", ".."}));
  EXPECT_EQ(split(R"(\p{L}+)", ""), Pieces{});
}

TEST(TextSplitterTest, ClassesAreUnicodes) {
  EXPECT_EQ(split(R"(\p{L}+|\p{N})", "日本٣½x"), (Pieces{"日本", "٣", "½", "x"}));
  EXPECT_EQ(split(R"((?i:'s))", "X'S'\u017F"), (Pieces{"X", "'S", "'\u017F"}));  // long s folds to s
}

// PCRE2's own \s also takes U+180E, which no current Unicode version counts as white space.
TEST(TextSplitterTest, WhiteSpaceIsUnicodesProperty) {
  EXPECT_EQ(split(R"(\s+)", "a\u00A0\u3000\u0085 b"), (Pieces{"a", "\u00A0\u3000\u0085 ", "b"}));
  EXPECT_EQ(split(R"(\s+)", "a\u180Eb"), (Pieces{"a\u180Eb"}));
  EXPECT_EQ(split(R"([^\s]+)", "a\u180Eb c"), (Pieces{"a\u180Eb", " ", "c"}));
  EXPECT_EQ(split(R"(\S+)", "a\u180Eb\vc"), (Pieces{"a\u180Eb", "\v", "c"}));
  EXPECT_EQ(split(R"(\\s)", R"(x\sy)"), (Pieces{"x", R"(\s)", "y"}));  // an escaped backslash
}

TEST(TextSplitterTest, InvalidUtf8BecomesItsOwnPieces) {
  EXPECT_EQ(split(R"(\p{L}+)",
                  "ab\xFF\xC3"
                  "cd\xE6\x97"),
            (Pieces{"ab", "\xFF\xC3", "cd", "\xE6\x97"}));
}

TEST(TextSplitterTest, EmptyMatchesCutNothing) {
  EXPECT_EQ(split(R"(x*)", "axxb日"), (Pieces{"a", "xx", "b日"}));
  EXPECT_EQ(split(R"((?=b))", "abab"), (Pieces{"abab"}));
}

TEST(TextSplitterTest, RefusesPatternsItCannotRun) {
  EXPECT_THROW(TextSplitter("(unclosed"), Error);
  EXPECT_THROW(TextSplitter(R"(\C)"), Error);
  EXPECT_THROW(TextSplitter(std::string(20000, 'x')), Error);
}

TEST(TextSplitterTest, CatastrophicBacktrackingIsAnErrorNotAHang) {
  EXPECT_THROW(split(R"((\p{L}+)+\p{N})", std::string(60, 'a') + "!"), Error);
}

TEST(TextSplitterTest, AMatchMayNotStartBeforeTheLastOneEnded) {
  EXPECT_THROW(split(R"((?=ab\K)a)", "aab"), Error);
}

}  // namespace
}  // namespace slip
