// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <random>

#include "common/error.h"
#include "tests/common/patience.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::load_tokenizer;
using testing::tiny_tokenizer;
using testing::tiny_tokenizer_json;

const std::filesystem::path kSource = SLIPSTREAM_SOURCE_DIR;

std::shared_ptr<const Tokenizer> embedded() {
  static const auto tokenizer = Tokenizer::load(kSource / "checkpoints/demo/target");
  return tokenizer;
}

nlohmann::json goldens() {
  return nlohmann::json::parse(std::ifstream(kSource / "tests/goldens/tokenizer.json"));
}

// ---- the reference's ids (tools/goldens.py) ----------------------------------------------------------------------

TEST(TokenizerGoldenTest, IdsEqualTheReference) {
  const nlohmann::json cases = goldens().at("texts");
  ASSERT_GT(cases.size(), 50U);
  for (const auto& golden : cases) {
    EXPECT_EQ(embedded()->encode(golden.at("text").get<std::string>(), SpecialTokens::kParse),
              golden.at("ids").get<Ids>())
        << golden.at("text");
  }
}

TEST(TokenizerGoldenTest, TemplatedPromptsEqualTheReference) {
  const ChatTemplate chat = ChatTemplate::load(kSource / "checkpoints/demo/target");
  const nlohmann::json cases = goldens().at("templated");
  ASSERT_GE(cases.size(), 10U);
  for (const auto& golden : cases) {
    EXPECT_EQ(chat.render(*embedded(), {{"user", golden.at("prompt").get<std::string>()}}, true),
              golden.at("ids").get<Ids>());
  }
}

std::string fnv1a(const Ids& ids) {
  std::uint64_t state = 0xCBF29CE484222325;
  for (const std::int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      state = (state ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state));
  return text;
}

// Real prompts and answers, named in the goldens by row; they lie beside the source tree on the machines that have
// them.
TEST(TokenizerGoldenTest, RowsEqualTheReferenceWhereTheDataIs) {
  const std::filesystem::path folder = kSource / "../shared/data/dev";
  if (!std::filesystem::exists(folder)) return;
  std::map<std::string, nlohmann::json> rows;
  for (const char* kind : {"math", "sql", "code", "lang"}) {
    std::ifstream file(folder / (std::string(kind) + ".jsonl"));
    for (std::string line; std::getline(file, line);) {
      nlohmann::json row = nlohmann::json::parse(line);
      const std::string id = row.at("id");
      rows[kind + ("/" + id)] = std::move(row);
    }
  }
  const ChatTemplate chat = ChatTemplate::load(kSource / "checkpoints/demo/target");
  const nlohmann::json cases = goldens().at("rows");
  ASSERT_GE(cases.size(), 400U);
  for (const auto& golden : cases) {
    const nlohmann::json& row =
        rows.at(golden.at("kind").get<std::string>() + "/" + golden.at("row").get<std::string>());
    const std::string part = golden.at("part");
    const Ids ids = part == "templated"
                        ? chat.render(*embedded(), {{"user", row.at("prompt").get<std::string>()}}, true)
                        : embedded()->encode(row.at(part).get<std::string>(), SpecialTokens::kParse);
    ASSERT_EQ(fnv1a(ids), golden.at("ids_hash")) << golden;
  }
}

TEST(TokenizerGoldenTest, NegativeControlAnotherMergeOrderIsCaught) {
  nlohmann::json json = nlohmann::json::parse(std::ifstream(kSource / "checkpoints/demo/target/tokenizer.json"));
  std::reverse(json["model"]["merges"].begin(), json["model"]["merges"].end());
  const auto wrong = load_tokenizer(json);
  const nlohmann::json cases = goldens().at("texts");
  int different = 0;
  for (const auto& golden : cases) {
    const Ids ids = wrong->encode(golden.at("text").get<std::string>(), SpecialTokens::kParse);
    different += ids == golden.at("ids").get<Ids>() ? 0 : 1;
  }
  EXPECT_GT(different, 20);
}

// ---- round trips ---------------------------------------------------------------------------------------------------

std::string bytes_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

TEST(TokenizerTest, AnyBytesSurviveTheRoundTrip) {
  std::mt19937 bits(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text(bits() % 80, '\0');
    for (char& c : text) c = static_cast<char>(round % 3 == 0 ? bits() : " \n<|end>aé1\xFF"[bits() % 13]);
    const Ids ids = embedded()->encode(text, SpecialTokens::kAsText);
    ASSERT_EQ(bytes_of(*embedded(), ids), text);
    for (const std::int32_t id : ids) ASSERT_FALSE(embedded()->is_special(id));
  }
}

TEST(TokenizerTest, DecodeLeavesSpecialsOutAndReplacesInvalidBytes) {
  const auto tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer->decode({'h', 260, 'i', 0xFF, '!', 262, 0xE6}), "hi\uFFFD![pad]\uFFFD");
}

// ---- special tokens ------------------------------------------------------------------------------------------------

TEST(TokenizerTest, UserTextNeverBecomesASpecialToken) {
  const auto tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer->encode("<|end|>", SpecialTokens::kParse), Ids{260});
  EXPECT_EQ(bytes_of(*tokenizer, tokenizer->encode("<|end|>", SpecialTokens::kAsText)), "<|end|>");
  EXPECT_EQ(tokenizer->encode("[pad]", SpecialTokens::kAsText), Ids{262});  // added, but not special
}

TEST(TokenizerTest, PiecesAreOneTextWithBordersOnlyForSpecials) {
  const auto tokenizer = tiny_tokenizer();
  constexpr SpecialTokens kParse = SpecialTokens::kParse, kAsText = SpecialTokens::kAsText;
  // "a" + "a" merges across the border as it would in one text.
  EXPECT_EQ(tokenizer->encode({{"a", kParse}, {"a", kAsText}}), Ids{256});
  EXPECT_EQ(tokenizer->encode({{"<|", kParse}, {"end|>", kParse}}), Ids{260});
  const Ids split = tokenizer->encode({{"<|", kParse}, {"end|>", kAsText}});
  EXPECT_EQ(bytes_of(*tokenizer, split), "<|end|>");
  EXPECT_EQ(tokenizer->encode({{"<|end|>", kAsText}, {"<|end|>", kParse}}).back(), 260);
  EXPECT_EQ(tokenizer->encode(std::vector<TextPiece>{}), Ids{});
}

// ---- what the file says --------------------------------------------------------------------------------------------

TEST(TokenizerTest, NamesItsEntries) {
  const auto tokenizer = embedded();
  EXPECT_EQ(tokenizer->vocab_size(), 8192);
  EXPECT_EQ(tokenizer->token_id("<|end|>"), 1);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->token_bytes(1), "");
  EXPECT_EQ(tokenizer->token_content(1), "<|end|>");
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->token_id("Ġt")), " t");
  EXPECT_EQ(tokenizer->token_id("no such entry"), -1);
}

TEST(TokenizerTest, IdsOutsideTheVocabularyAreNothing) {
  for (const std::int32_t id : {-1, 8192, 1 << 30}) {
    EXPECT_EQ(embedded()->token_bytes(id), "");
    EXPECT_EQ(embedded()->token_content(id), "");
    EXPECT_FALSE(embedded()->is_special(id));
  }
}

TEST(TokenizerTest, FindsTheFirstDifferingId) {
  const auto a = tiny_tokenizer();
  EXPECT_EQ(Tokenizer::first_difference(*a, *tiny_tokenizer()), -1);
  nlohmann::json json = tiny_tokenizer_json();
  json["model"]["vocab"][spelling_of_byte('x')] = 'y';
  json["model"]["vocab"][spelling_of_byte('y')] = 'x';
  EXPECT_EQ(Tokenizer::first_difference(*a, *load_tokenizer(json)), 'x');
  json = tiny_tokenizer_json();
  json["added_tokens"].erase(2);
  EXPECT_EQ(Tokenizer::first_difference(*a, *load_tokenizer(json)), 262);
  json = tiny_tokenizer_json();
  json["added_tokens"][0]["special"] = false;
  EXPECT_EQ(Tokenizer::first_difference(*a, *load_tokenizer(json)), 260);
}

TEST(TokenizerTest, AMissingFolderIsNotFound) {
  try {
    Tokenizer::load(kSource / "no/such/folder");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

// S9, on the embedded vocabulary; each usually takes under 0.2 s.
TEST(TokenizerTest, AMegabyteOfAnythingTakesUnderASecond) {
  for (const std::string& unit :
       std::vector<std::string>{"a", " ", "😀", "\n", " \n", "<|", "<|end|", "\xFF", "e\u0301", "1"}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    const std::clock_t begin = std::clock();  // processor time: other load does not count
    const Ids ids = embedded()->encode(text, SpecialTokens::kParse);
    EXPECT_LT(std::clock() - begin, testing::kPatience * CLOCKS_PER_SEC) << unit;
    EXPECT_EQ(bytes_of(*embedded(), ids), text);
  }
}

}  // namespace
}  // namespace slip
