// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "text/tokenizer_fields.h"

namespace slip {
namespace {

Normalizer read(const char* text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return Normalizer::read(TokenizerFields(json, "t.json", "normalizer"));
}

TEST(NormalizerTest, UnicodeForms) {
  EXPECT_EQ(read(R"({"type": "NFC"})").apply("e\u0301\u1E9B\u0323"), "\u00E9\u1E9B\u0323");
  EXPECT_EQ(read(R"({"type": "NFD"})").apply("\u00E9"), "e\u0301");
  EXPECT_EQ(read(R"({"type": "NFKC"})").apply("\uFB01 \u2460"), "fi 1");
  EXPECT_EQ(read(R"({"type": "NFKD"})").apply("\u00BD"), "1\u20442");
}

TEST(NormalizerTest, BytesThatAreNoTextStay) {
  EXPECT_EQ(read(R"({"type": "NFC"})")
                .apply("e\u0301\xFF"
                       "e\u0301\xE6\x97"),
            "\u00E9\xFF\u00E9\xE6\x97");
  EXPECT_EQ(read(R"({"type": "Lowercase"})").apply("A\xFFZ"), "a\xFFz");
}

TEST(NormalizerTest, LowercaseSeesOneCharacterAtATime) {
  EXPECT_EQ(read(R"({"type": "Lowercase"})").apply("ΟΔΟΣ İ ǅ"), "οδοσ i\u0307 ǆ");
}

TEST(NormalizerTest, StripTakesUnicodesWhiteSpace) {
  EXPECT_EQ(read(R"({"type": "Strip", "strip_left": true, "strip_right": false})").apply("\u3000 a "), "a ");
  EXPECT_EQ(read(R"({"type": "Strip", "strip_left": false, "strip_right": true})").apply(" a\u2003\n"), " a");
  EXPECT_EQ(read(R"({"type": "Strip", "strip_left": true, "strip_right": true})").apply(" \t "), "");
}

TEST(NormalizerTest, StepsAreAppliedInOrder) {
  const Normalizer llama = read(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  EXPECT_EQ(llama.apply("a b"), "▁a▁b");
  EXPECT_EQ(llama.apply(""), "");
  EXPECT_FALSE(llama.is_identity());
}

TEST(NormalizerTest, ReplacesWhatAnExpressionMatches) {
  EXPECT_EQ(read(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_$0"})").apply("a \n b"), "a_$0b");
}

// Each step could double what the one before it left.
TEST(NormalizerTest, AFileThatMakesTextExplodeIsStopped) {
  const TextPattern letter = TextPattern::literal("a");
  const Normalizer hostile(std::vector<Normalizer::Step>(3, Normalizer::Replace{letter, std::string(4096, 'a')}));
  try {
    hostile.apply("a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
  }
}

}  // namespace
}  // namespace slip
