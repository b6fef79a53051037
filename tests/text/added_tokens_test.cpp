// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace slip {
namespace {

std::vector<std::string> found(const AddedTokens& tokens, std::string_view text, std::vector<ByteRange> parsed) {
  std::vector<std::string> out;
  for (const AddedTokens::Match& match : tokens.find(text, parsed)) {
    out.push_back(std::to_string(match.where.begin) + ":" + std::to_string(match.id));
  }
  return out;
}

using Found = std::vector<std::string>;

class AddedTokensTest : public ::testing::Test {
 protected:
  AddedTokensTest() {
    tokens_.add("<|end|>", 1, {.special = true});
    tokens_.add("<|end|>x", 2, {.special = true});
    tokens_.add("<|", 3, {});
  }
  AddedTokens tokens_;
};

TEST_F(AddedTokensTest, LeftmostThenLongest) {
  EXPECT_EQ(found(tokens_, "a<|end|>xb<|end|>", {{0, 17}}), (Found{"1:2", "10:1"}));
  EXPECT_EQ(found(tokens_, "<|en<|end|>", {{0, 11}}), (Found{"0:3", "4:1"}));
}

TEST_F(AddedTokensTest, SpecialTokensOnlyInsideParsedRanges) {
  EXPECT_EQ(found(tokens_, "<|end|>x", {}), (Found{"0:3"}));
  EXPECT_EQ(found(tokens_, "<|end|>x", {{0, 7}}), (Found{"0:1"}));         // the longer one leaves the range
  EXPECT_EQ(found(tokens_, "<|end|>", {{0, 3}, {3, 7}}), (Found{"0:3"}));  // across a border
  EXPECT_EQ(found(tokens_, "<|end|><|end|>", {{7, 14}}), (Found{"0:3", "7:1"}));
}

std::string ranges(const AddedTokens& tokens, std::string_view text) {
  const ByteRange whole{0, text.size()};
  std::string out;
  for (const AddedTokens::Match& match : tokens.find(text, std::span(&whole, 1))) {
    out += std::to_string(match.where.begin) + "-" + std::to_string(match.where.end) + " ";
  }
  return out;
}

TEST(AddedTokensFlagsTest, StripTakesTheWhiteSpaceBesideIt) {
  AddedTokens tokens;
  tokens.add("<l>", 1, {.lstrip = true});
  tokens.add("<r>", 2, {.rstrip = true});
  EXPECT_EQ(ranges(tokens, "a \u3000<l> b"), "1-8 ");
  EXPECT_EQ(ranges(tokens, "a <r>\t b"), "2-7 ");
  EXPECT_EQ(ranges(tokens, "<r>  <l>"), "0-5 5-8 ");  // each space is taken once
  EXPECT_EQ(ranges(tokens, " <l>"), "0-4 ");
  EXPECT_EQ(ranges(tokens, "\xFF<l>"), "1-4 ");
}

TEST(AddedTokensFlagsTest, SingleWordsStandAlone) {
  AddedTokens tokens;
  tokens.add("one", 1, {.single_word = true});
  EXPECT_EQ(ranges(tokens, "one one, anyone ones one_ \u00e9one one\u0301 (one)\xFFone"), "0-3 4-7 39-42 44-47 ");
}

}  // namespace
}  // namespace slip
