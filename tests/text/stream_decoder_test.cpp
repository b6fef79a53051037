// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "tests/text/tiny_tokenizer.h"
#include "text/utf8.h"

namespace slip {
namespace {

TEST(StreamDecoderTest, HoldsHalfCharactersBack) {
  StreamDecoder decoder(testing::tiny_tokenizer());
  EXPECT_EQ(decoder.push('x'), "x");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "😀");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoderTest, SpecialTokensPassThroughTheMiddleOfACharacter) {
  StreamDecoder decoder(testing::tiny_tokenizer());
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(260), "");
  EXPECT_EQ(decoder.push(0xA9), "é");
}

TEST(StreamDecoderTest, FinishReplacesWhatIsLeft) {
  StreamDecoder decoder(testing::tiny_tokenizer());
  EXPECT_EQ(decoder.push(0xE6), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

// Whatever tokens come, the pieces are valid UTF-8 and add up to decode() of all of them.
TEST(StreamDecoderTest, PiecesAddUpToTheWhole) {
  const auto tokenizer = testing::tiny_tokenizer();
  std::mt19937 bits(3);
  for (int round = 0; round < 300; ++round) {
    StreamDecoder decoder(tokenizer);
    std::vector<std::int32_t> ids(bits() % 40);
    std::string streamed;
    for (std::int32_t& id : ids) {
      id = static_cast<std::int32_t>(round % 2 == 0 ? bits() % 270 : 0x80 + bits() % 0x80);
      const std::string piece = decoder.push(id);
      ASSERT_EQ(valid_utf8_prefix(piece), piece.size());
      streamed += piece;
    }
    ASSERT_EQ(streamed + decoder.finish(), tokenizer->decode(ids));
  }
}

}  // namespace
}  // namespace slip
