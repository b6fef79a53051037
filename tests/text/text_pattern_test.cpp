// SPDX-License-Identifier: Apache-2.0
#include "text/text_pattern.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces pieces_of(const TextPattern& pattern, std::string_view text) {
  Pieces pieces;
  pattern.cut(text, [&](const TextSpan& span) { pieces.push_back(text.substr(span.begin, span.end - span.begin)); });
  return pieces;
}

Pieces split(const std::string& pattern, std::string_view text) {
  return pieces_of(TextPattern::regex(pattern), text);
}

TEST(TextPatternTest, MatchesAndWhatLiesBetweenArePieces) {
  EXPECT_EQ(split(R"(\p{L}+)", "ab1,cd"), (Pieces{"ab", "1,", "cd"}));
  EXPECT_EQ(split(R"(\p{L}+)", "..ab.."), (Pieces{"..", "ab", ".."}));
  EXPECT_EQ(split(R"(\p{L}+)", ""), Pieces{});
}

TEST(TextPatternTest, ClassesAreUnicodes) {
  EXPECT_EQ(split(R"(\p{L}+|\p{N})", "日本٣½x"), (Pieces{"日本", "٣", "½", "x"}));
  EXPECT_EQ(split(R"((?i:'s))", "X'S'\u017F"), (Pieces{"X", "'S", "'\u017F"}));  // long s folds to s
}

// The full stop and the long vowel mark belong to these scripts by their extensions only.
TEST(TextPatternTest, AScriptIsNotItsExtensions) {
  EXPECT_EQ(split(R"(\p{Han}+)", "漢字。"), (Pieces{"漢字", "。"}));
  EXPECT_EQ(split(R"([\p{Hiragana}]+)", "らーめん"), (Pieces{"ら", "ー", "めん"}));
  EXPECT_EQ(split(R"(\P{Han}+)", "漢字。a"), (Pieces{"漢字", "。a"}));
  EXPECT_EQ(split(R"(\p{^Han}+)", "漢字。a"), (Pieces{"漢字", "。a"}));
}

// PCRE2's own \s also takes U+180E, which no current Unicode version counts as white space.
TEST(TextPatternTest, WhiteSpaceIsUnicodesProperty) {
  EXPECT_EQ(split(R"(\s+)", "a\u00A0\u3000\u0085 b"), (Pieces{"a", "\u00A0\u3000\u0085 ", "b"}));
  EXPECT_EQ(split(R"(\s+)", "a\u180Eb"), (Pieces{"a\u180Eb"}));
  EXPECT_EQ(split(R"([^\s]+)", "a\u180Eb c"), (Pieces{"a\u180Eb", " ", "c"}));
  EXPECT_EQ(split(R"(\S+)", "a\u180Eb\vc"), (Pieces{"a\u180Eb", "\v", "c"}));
  EXPECT_EQ(split(R"(\\s)", R"(x\sy)"), (Pieces{"x", R"(\s)", "y"}));  // an escaped backslash
}

TEST(TextPatternTest, InvalidUtf8BecomesItsOwnPieces) {
  EXPECT_EQ(split(R"(\p{L}+)",
                  "ab\xFF\xC3"
                  "cd\xE6\x97"),
            (Pieces{"ab", "\xFF\xC3", "cd", "\xE6\x97"}));
}

// As the reference has it: "(?=…)" is how some tokenizers group digits from the right.
TEST(TextPatternTest, EmptyMatchesCut) {
  EXPECT_EQ(split(R"((?=b))", "abab"), (Pieces{"a", "", "ba", "", "b"}));
  EXPECT_EQ(split(R"(x*)", "axx"), (Pieces{"", "a", "xx"}));  // none right after a match
  EXPECT_EQ(split(R"((?=(\d{3})+$))", "1234567"), (Pieces{"1", "", "234", "", "567"}));
}

TEST(TextPatternTest, LiteralsAreNoExpressions) {
  EXPECT_EQ(pieces_of(TextPattern::literal("."), "a.b..\xFF"), (Pieces{"a", ".", "b", ".", ".", "\xFF"}));
  EXPECT_EQ(pieces_of(TextPattern::literal("aa"), "aaa"), (Pieces{"aa", "a"}));
}

TEST(TextPatternTest, SaysWhatMatched) {
  std::vector<TextSpan> spans;
  TextPattern::regex("b+").cut("abbc", [&](const TextSpan& span) { spans.push_back(span); });
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_FALSE(spans[0].is_match);
  EXPECT_TRUE(spans[1].is_match);
  EXPECT_EQ(spans[1].end, 3U);
}

TEST(TextPatternTest, RefusesPatternsItCannotRun) {
  EXPECT_THROW(TextPattern::regex("(unclosed"), Error);
  EXPECT_THROW(TextPattern::regex(R"(\C)"), Error);
  EXPECT_THROW(TextPattern::regex(std::string(20000, 'x')), Error);
}

TEST(TextPatternTest, CatastrophicBacktrackingIsAnErrorNotAHang) {
  EXPECT_THROW(split(R"((\p{L}+)+\p{N})", std::string(60, 'a') + "!"), Error);
}

TEST(TextPatternTest, AMatchMayNotStartBeforeTheLastOneEnded) {
  EXPECT_THROW(split(R"((?=ab\K)a)", "aab"), Error);
}

}  // namespace
}  // namespace slip
