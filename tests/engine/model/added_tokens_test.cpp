// SPDX-License-Identifier: Apache-2.0
#include "engine/model/added_tokens.h"

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
    tokens_.add("<|end|>", 1, /*special=*/true);
    tokens_.add("<|end|>x", 2, /*special=*/true);
    tokens_.add("<|", 3, /*special=*/false);
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

}  // namespace
}  // namespace slip
