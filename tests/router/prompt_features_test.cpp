// SPDX-License-Identifier: Apache-2.0
#include "router/prompt_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>

namespace slip {
namespace {

using namespace std::string_view_literals;

std::set<std::uint32_t> set_of(std::string_view text) {
  const auto features = prompt_features(text);
  return {features.begin(), features.end()};
}

// Stored weights mean something only as long as these stay: whoever must change them raises kFeatureVersion.
TEST(PromptFeatures, AreTheSameInEveryBuild) {
  ASSERT_EQ(kFeatureVersion, 1U);
  const auto features = prompt_features("Ab é");
  EXPECT_EQ(features, (std::vector<std::uint32_t>{14489, 584, 11218, 1978, 5834, 16347, 731, 11971, 14736, 16043, 10958,
                                                  3290, 15364}));
}

TEST(PromptFeatures, AreDistinctAndInRange) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "word" + std::string(1, static_cast<char>('a' + i % 26)) + " and ";
  const auto features = prompt_features(text);
  EXPECT_EQ(set_of(text).size(), features.size());
  EXPECT_LT(*std::max_element(features.begin(), features.end()), kFeatureBuckets);
}

TEST(PromptFeatures, TextWithoutACharacterThatShowsHasNone) {
  for (const auto text : {""sv, " "sv, "\n\n\t \r\n"sv, "\0\0"sv}) EXPECT_TRUE(prompt_features(text).empty());
  EXPECT_FALSE(prompt_features("a").empty());
  EXPECT_FALSE(prompt_features("?").empty());
}

TEST(PromptFeatures, CaseDigitsAndTheAmountOfWhiteSpaceDoNotMatter) {
  EXPECT_EQ(set_of("SELECT Name, 17"), set_of("select   name,\t42"));
  EXPECT_EQ(set_of("a\r\n\n  b"), set_of("a\nb"));
  EXPECT_EQ(set_of("  a b "), set_of("a b"));
  EXPECT_NE(set_of("a b"), set_of("a\nb")) << "a line break is no space";
  EXPECT_NE(set_of("a b"), set_of("ab"));
  EXPECT_NE(set_of("ab"), set_of("ba"));
}

TEST(PromptFeatures, PairsOfWordsKnowTheirOrder) {
  const auto both = prompt_features("alpha beta"), turned = prompt_features("beta alpha");
  EXPECT_NE(std::find(turned.begin(), turned.end(), both.end()[-3]), turned.end()) << "the first word";
  EXPECT_EQ(std::find(turned.begin(), turned.end(), both.back()), turned.end()) << "the pair";
}

TEST(PromptFeatures, AnyBytesWill) {
  const std::string broken[] = {"\x80",    "\xC3",          "\xE2\x82",     "\xF0\x9F\x98",         "\xFF\xFE",
                                "a\xC3(b", "\xE2\x82(\xAC", "\xED\xA0\x80", "\xF8\x88\x80\x80\x80", "x\xF0"};
  for (const auto& text : broken) {
    EXPECT_FALSE(prompt_features(text).empty());
    EXPECT_EQ(prompt_features(text), prompt_features(text));
  }
  EXPECT_EQ(set_of("\xC3(").count(prompt_features("(").front()), 0U);
  EXPECT_NE(set_of("caf\xC3\xA9"), set_of("caf\xC3"));
}

// One character beyond ASCII is one symbol: "é" and "è" share a lead byte and so their script, and nothing else.
TEST(PromptFeatures, CharactersBeyondAsciiAreWholeAndSayTheirScript) {
  const auto acute = set_of("é"), grave = set_of("è"), greek = set_of("λ");
  std::vector<std::uint32_t> shared, foreign;
  std::set_intersection(acute.begin(), acute.end(), grave.begin(), grave.end(), std::back_inserter(shared));
  std::set_intersection(acute.begin(), acute.end(), greek.begin(), greek.end(), std::back_inserter(foreign));
  EXPECT_EQ(shared.size(), 1U);
  EXPECT_EQ(foreign.size(), 0U);
}

TEST(PromptFeatures, OfALongTextBothEndsAreRead) {
  const std::string begin(kReadBytesEachEnd, 'a'), end(kReadBytesEachEnd, 'z');
  const auto all = prompt_features(begin + std::string(1'000'000, 'm') + end);
  EXPECT_EQ(all, prompt_features(begin + "mmmmm" + end)) << "what stands between is not";
  EXPECT_NE(all, prompt_features(begin + end.substr(1) + "!"));
  EXPECT_LE(prompt_features(std::string(1'000'000, 'x')).size(), 20U);
}

// The cut may fall into a character of up to four bytes: that character is left out, never a part of it read.
TEST(PromptFeatures, CutsFallBetweenCharacters) {
  for (const std::string character : {"é", "字", "😀"}) {
    for (std::size_t shift = 0; shift < 6; ++shift) {
      const std::string marks(shift, '!'), some = character + "." + character + "." + character + ".";
      std::string text = marks;
      while (text.size() < 4 * kReadBytesEachEnd) text += some;
      text += marks;
      std::set<std::uint32_t> whole;
      for (const auto& part : {marks + some, marks + some + character, some + marks, "." + some + marks}) {
        whole.merge(set_of(part));
      }
      for (const auto& begin : {some, some + character}) {  // the two ends that are read are lines
        for (const auto& end : {some, "." + some}) whole.merge(set_of(begin + "\n" + end));
      }
      for (const std::uint32_t bucket : prompt_features(text))
        EXPECT_TRUE(whole.contains(bucket)) << character << shift;
    }
  }
}

TEST(PromptFeatures, ALabelIsALineBeforeTheText) {
  EXPECT_EQ(prompt_features("postgres sql", "show it"), prompt_features("postgres sql\nshow it"));
  EXPECT_EQ(prompt_features("", "show it"), prompt_features("show it"));
  EXPECT_EQ(prompt_features(std::string(1'000'000, 'x'), "a"), prompt_features(std::string(64, 'x'), "a"));
}

// How many n-grams share a bucket with another one: 1 − (1 − 1/m)^(n−1) for n n-grams thrown into m buckets at random.
// A hash that clusters, or looks at too few bits, is far above.
TEST(PromptFeatures, CollisionsAreThoseOfChance) {
  std::map<std::uint32_t, int> words_in;  // [bucket]
  int n = 0, collided = 0;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      for (char c = 'a'; c <= 'f'; ++c) {
        // Characters come first, so the last feature is the word's.
        const auto features = prompt_features(std::string{a, b, c, 'q', 'x', 'j'});
        ++words_in[features.back()];
        ++n;
      }
    }
  }
  for (const auto& [bucket, count] : words_in) collided += count > 1 ? count : 0;
  const double m = static_cast<double>(kFeatureBuckets), expected = n * (1 - std::pow(1 - 1 / m, n - 1));
  EXPECT_NEAR(collided, expected, 4 * std::sqrt(2 * expected));
  EXPECT_EQ(n, 26 * 26 * 6);
}

}  // namespace
}  // namespace slip
