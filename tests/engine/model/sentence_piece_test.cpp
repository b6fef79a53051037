// SPDX-License-Identifier: Apache-2.0
#include "engine/model/sentence_piece.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "common/error.h"
#include "tests/engine/model/tiny_tokenizer.h"

namespace slip {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers/sentencepiece_bpe";

TEST(SentencePieceTest, ControlSymbolsAreReadOnlyWhereTheyAreParsed) {
  const auto tokenizer = Tokenizer::load(kFolder);
  const std::int32_t begin = tokenizer->token_id("<s>");
  EXPECT_TRUE(tokenizer->is_special(begin));
  EXPECT_EQ(tokenizer->encode("<s>", SpecialTokens::kParse), std::vector{begin});
  for (const std::int32_t id : tokenizer->encode("<s>", SpecialTokens::kAsText))
    EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_EQ(tokenizer->with_special_tokens({7}), (std::vector{begin, 7}));
}

TEST(SentencePieceTest, BytesThatAreNoTextAreReplaced) {
  const auto tokenizer = Tokenizer::load(kFolder);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xFF b", SpecialTokens::kAsText)), "a\uFFFD b");
}

TEST(SentencePieceTest, TokensHaveTheBytesTheyStandForInsideAText) {
  const auto tokenizer = Tokenizer::load(kFolder);
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->token_id("▁")), " ");
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->token_id("<0xE6>")), "\xE6");
}

TEST(SentencePieceTest, AFileThatIsNoneIsRefused) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.model", "not a model");
  EXPECT_THROW(Tokenizer::load(folder.path()), Error);
  folder.write("tokenizer.model", "");
  EXPECT_THROW(Tokenizer::load(folder.path()), Error);
}

}  // namespace
}  // namespace slip
