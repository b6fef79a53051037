// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

std::string fixed32(std::uint32_t value) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
  return out;
}

std::string varint(std::size_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}

std::string bytes_field(unsigned number, const std::string& content) {
  return static_cast<char>(number << 3 | 2) + varint(content.size()) + content;
}

std::string piece(const std::string& content, float score = 0, char type = 1) {
  return bytes_field(1,
                     bytes_field(1, content) + "\x15" + fixed32(std::bit_cast<std::uint32_t>(score)) + "\x18" + type);
}

// A double array of `units`, then texts.
std::string normalizer(const std::vector<std::uint32_t>& units, const std::string& texts) {
  std::string map = fixed32(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) map += fixed32(unit);
  return bytes_field(3, bytes_field(2, map + texts));
}

const std::string kPieces = piece("<unk>", 0, 2) + piece("a") + piece("b");

// "A" becomes text 0: the root's children lie around unit 256, and A's value at 256 + 'A' itself.
std::vector<std::uint32_t> one_letter() {
  std::vector<std::uint32_t> units(768, 1U << 31);
  units[0] = 256U << 10;
  units[256 ^ 'A'] = (((256 ^ 'A') ^ 512U) << 10) | 0x100 | 'A';
  units[512] = 1U << 31;
  return units;
}

std::string refusal(const std::string& bytes) {
  try {
    check_sentence_piece_file(bytes, "tokenizer.model");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(SentencePieceFile, ASoundFilePasses) {
  EXPECT_EQ(refusal(kPieces), "");
  EXPECT_EQ(refusal(kPieces + normalizer(one_letter(), std::string("x\0", 2))), "");
}

TEST(SentencePieceFile, EveryRefusalNamesTheFileAndTheReason) {
  const std::string text("x\0", 2);
  auto outside = one_letter(), value_outside = one_letter(), text_outside = one_letter();
  outside[0] = 4096U << 10;
  value_outside[256 ^ 'A'] = 4096U << 10 | 0x100 | 'A';
  text_outside[512] = (1U << 31) + 2;
  const std::vector<std::pair<std::string, std::string>> refusals{
      {"", "no pieces"},
      {normalizer(one_letter(), text), "no pieces"},
      {"\x0B" + kPieces, "no protocol buffer"},
      {kPieces.substr(0, kPieces.size() - 1), "ends inside"},
      {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", "ends inside"},
      {kPieces + piece(""), "piece 3 is empty"},
      {kPieces + piece("a"), "piece 3 is repeated"},
      {kPieces + piece(std::string(5000, 'x')), "piece 3 is over"},
      {kPieces + piece("c", std::nanf("")), "piece 3 has a score"},
      {kPieces + normalizer(outside, text), "outside"},
      {kPieces + normalizer(value_outside, text), "outside"},
      {kPieces + normalizer(text_outside, text), "outside"},
      {kPieces + normalizer(one_letter(), "x"), "outside"},  // a text without its end
      {kPieces + normalizer(one_letter(), ""), "outside"},
      {kPieces + normalizer({}, text), "outside"},
      {kPieces + bytes_field(3, bytes_field(2, "abc")), "outside"}};
  for (const auto& [bytes, reason] : refusals) {
    EXPECT_NE(refusal(bytes).find("tokenizer.model: "), std::string::npos) << reason << ": " << refusal(bytes);
    EXPECT_NE(refusal(bytes).find(reason), std::string::npos) << reason << ": " << refusal(bytes);
  }
}

TEST(SentencePieceFile, MoreThanAMillionPiecesAreRefused) {
  std::string bytes;
  for (int i = 0; i <= 1 << 20; ++i) bytes += bytes_field(1, bytes_field(1, std::to_string(i)));
  EXPECT_NE(refusal(bytes).find("more than"), std::string::npos);
}

// Damaged files load or are refused, and what loads encodes: a run under a sanitizer says whether that is true.
TEST(SentencePieceFile, DamagedFilesAreRefusedOrWork) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"sentencepiece_bpe", "sentencepiece_unigram", "sentencepiece_map"}) {
    std::ostringstream content;
    content << std::ifstream(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers" / name /
                             "tokenizer.model")
                   .rdbuf();
    std::mt19937 draw(7);
    int refused = 0;
    for (int run = 0; run < 45; ++run) {
      std::string bytes = content.str();
      for (int i = 0; i < 3; ++i) bytes[draw() % bytes.size()] = static_cast<char>(draw());
      if (run % 3 == 0) bytes.resize(draw() % bytes.size());
      folder.write("tokenizer.model", bytes);
      try {
        const auto tokenizer = Tokenizer::load(folder.path());
        tokenizer->decode(tokenizer->encode_prompt("The quick Ａ① fox, \xFF and </s> äöü."));
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 10) << name;
    EXPECT_LT(refused, 45) << name;
  }
}

}  // namespace
}  // namespace slip
