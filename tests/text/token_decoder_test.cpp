// SPDX-License-Identifier: Apache-2.0
#include "text/token_decoder.h"

#include <gtest/gtest.h>

#include "tests/text/tiny_tokenizer.h"
#include "text/byte_spelling.h"
#include "text/tokenizer_fields.h"

namespace slip {
namespace {

using nlohmann::json;

TokenDecoder read(const char* text) {
  const json file = json::parse(text);
  return TokenDecoder::read(TokenizerFields(file, "t.json", "decoder"));
}

TEST(TokenDecoderTest, OneTokenAlone) {
  const TokenDecoder metaspace = read(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})");
  EXPECT_EQ(metaspace.token_bytes("▁a▁", /*is_first=*/false), " a ");
  EXPECT_EQ(metaspace.token_bytes("▁a▁", /*is_first=*/true), "a");
  const TokenDecoder byte_level = read(R"({"type": "ByteLevel"})");
  EXPECT_EQ(byte_level.token_bytes("Ġa", false), " a");
  EXPECT_EQ(byte_level.token_bytes("日", false), "日");
  const TokenDecoder fallback = read(R"({"type": "ByteFallback"})");
  EXPECT_EQ(fallback.token_bytes("<0xe6>", false), "\xE6");
  EXPECT_EQ(fallback.token_bytes("<0xG6>", false), "<0xG6>");
  const TokenDecoder strip = read(R"({"type": "Strip", "content": "x", "start": 1, "stop": 2})");
  EXPECT_EQ(strip.token_bytes("xxaxxx", false), "xax");
}

// ---- streams: 0 "<unk>", 1 "▁", 2 "▁a", 3 "b", 4 … 259 the bytes --------------------------------------------------

std::shared_ptr<const Tokenizer> llama_like(int stop) {
  json vocabulary{{"<unk>", 0}, {"▁", 1}, {"▁a", 2}, {"b", 3}};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[fallback_spelling(static_cast<unsigned char>(byte))] = 4 + byte;
  }
  json file = json::parse(R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
      "model": {"type": "BPE", "byte_fallback": true, "merges": []}})");
  file["model"]["vocab"] = vocabulary;
  file["decoder"]["decoders"][3]["stop"] = stop;
  return testing::load_tokenizer(file);
}

TEST(TokenDecoderTest, OnlyTheTextsFirstSpaceIsCutOff) {
  const auto tokenizer = llama_like(0);
  EXPECT_EQ(tokenizer->decode({2, 2, 1, 3}), "a a b");
  EXPECT_EQ(tokenizer->decode({0, 1, 1, 3}), " b");
  EXPECT_EQ(tokenizer->token_bytes(2), " a");
  StreamDecoder middle(tokenizer, StreamDecoder::Start::kMiddle);
  EXPECT_EQ(middle.push(2), " a");
}

TEST(TokenDecoderTest, FallbackBytesAreHeldUntilTheyAreACharacter) {
  const auto tokenizer = llama_like(0);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(4 + 0xE6), "");
  EXPECT_EQ(decoder.push(4 + 0x97), "");
  EXPECT_EQ(decoder.push(4 + 0xA5), "日");
  EXPECT_EQ(decoder.push(4 + 0xE6), "");
  EXPECT_EQ(decoder.push(4 + 0x97), "");
  EXPECT_EQ(decoder.push(3), "\uFFFD\uFFFDb");  // one for a byte, as the reference has it
  EXPECT_EQ(decoder.push(4 + 0xF0), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
}

TEST(TokenDecoderTest, WhatMayBeCutOffTheEndIsHeld) {
  const auto tokenizer = llama_like(1);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(2), "a");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.push(1), " ");
  EXPECT_EQ(decoder.push(3), " b");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace slip
