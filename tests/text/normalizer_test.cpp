// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <gtest/gtest.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>

#include "common/error.h"
#include "text/code_points.h"
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

std::string repeated(const std::string& part, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += part;
  return text;
}

// ICU takes time in the square of the marks that are out of order: minutes for this, and no request could be cancelled.
TEST(NormalizerTest, AMegabyteOfCombiningMarksIsNoAttack) {
  constexpr int kHalf = 1 << 18;
  const std::string above = repeated("\u0301", kHalf), below = repeated("\u0323", kHalf);
  const std::string text = "x a" + above + below + "b";
  const std::string decomposed = "x a" + below + above + "b";
  const std::string composed = "x \u1EA1" + below.substr(2) + above + "b";
  EXPECT_TRUE(read(R"({"type": "NFD"})").apply(text) == decomposed);
  EXPECT_TRUE(read(R"({"type": "NFKD"})").apply(text) == decomposed);
  EXPECT_TRUE(read(R"({"type": "NFC"})").apply(text) == composed);
  EXPECT_TRUE(read(R"({"type": "NFKC"})").apply(text) == composed);
  // U+FF9E decomposes into a mark in the compatible forms only.
  const std::string halfwidth = "a" + above + repeated("\uFF9E", kHalf);
  EXPECT_TRUE(read(R"({"type": "NFKD"})").apply(halfwidth) == "a" + repeated("\u3099", kHalf) + above);
  EXPECT_TRUE(read(R"({"type": "NFD"})").apply(halfwidth) == halfwidth);
}

TEST(NormalizerTest, LongRunsOfMarksAreWhatIcuMakesOfThem) {
  using Form = Normalizer::Form;
  UErrorCode status = U_ZERO_ERROR;
  const std::array<std::pair<Form, const icu::Normalizer2*>, 4> forms{
      {{Form::kNfc, icu::Normalizer2::getNFCInstance(status)},
       {Form::kNfd, icu::Normalizer2::getNFDInstance(status)},
       {Form::kNfkc, icu::Normalizer2::getNFKCInstance(status)},
       {Form::kNfkd, icu::Normalizer2::getNFKDInstance(status)}}};
  // Marks of many classes; U+0F73, U+0F75 and U+0F81 decompose into marks, but have the class 0 themselves.
  static constexpr std::array kMarks{0x300,  0x301,  0x302,  0x308,  0x323,   0x327,   0x328,  0x31B,
                                     0x344,  0x340,  0x343,  0x345,  0x5B0,   0x64B,   0x93C,  0x94D,
                                     0xF71,  0xF72,  0xF73,  0xF74,  0xF75,   0xF80,   0xF81,  0x3099,
                                     0x309A, 0xFF9E, 0xFF9F, 0x20D0, 0x1D165, 0x1D16E, 0x1DFA, 0x35D};
  static constexpr std::array kStarters{0x61, 0xE1, 0x1EAD, 0xF40, 0xAC00, 0x304B, 0x9C7, 0xFB01, 0x1D15F};
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int run = 0; run < 3; ++run) {
      append_utf8(kStarters[random() % kStarters.size()], text);
      for (auto n = 60 + random() % 141; n > 0; --n) append_utf8(kMarks[random() % kMarks.size()], text);
    }
    for (const auto& [form, icu_form] : forms) {
      std::string expected;
      icu::StringByteSink<std::string> sink(&expected);
      icu_form->normalizeUTF8(0, icu::StringPiece(text), sink, nullptr, status);
      ASSERT_TRUE(U_SUCCESS(status));
      ASSERT_EQ(Normalizer({form}).apply(text), expected) << "round " << round;
    }
  }
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
