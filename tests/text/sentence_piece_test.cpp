// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

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

// A folder with the model and this tokenizer_config.json.
std::shared_ptr<const Tokenizer> with_settings(const nlohmann::json& settings) {
  const testing::TemporaryFolder folder;
  std::filesystem::copy_file(kFolder / "tokenizer.model", folder.path() / "tokenizer.model");
  folder.write("tokenizer_config.json", settings.dump());
  return Tokenizer::load(folder.path());
}

TEST(SentencePieceTest, TheSettingsSayWhatStandsAroundAPrompt) {
  const auto plain = Tokenizer::load(kFolder);
  const std::int32_t begin = plain->token_id("<s>"), end = plain->token_id("</s>");
  std::vector<std::int32_t> ids = plain->encode("the fox", SpecialTokens::kParse);
  EXPECT_EQ(with_settings({{"add_bos_token", false}})->encode_prompt("the fox"), ids);
  ids.insert(ids.begin(), begin);
  EXPECT_EQ(plain->encode_prompt("the fox"), ids);
  EXPECT_EQ(with_settings(nlohmann::json::object())->encode_prompt("the fox"), ids);
  EXPECT_EQ(with_settings({{"bos_token", "</s>"}})->encode_prompt(""), std::vector{end});
  ids.push_back(end);
  EXPECT_EQ(with_settings({{"add_eos_token", true}})->encode_prompt("the fox"), ids);
  EXPECT_EQ(with_settings({{"add_eos_token", true}, {"eos_token", {{"content", "</s>"}}}})->encode_prompt("the fox"),
            ids);
}

TEST(SentencePieceTest, TheSettingsAddTokensBehindThePieces) {
  const std::string next = std::to_string(Tokenizer::load(kFolder)->vocab_size());
  const auto tokenizer =
      with_settings({{"added_tokens_decoder",
                      {{next, {{"content", "<|im_end|>"}, {"special", true}}}, {"1", {{"content", "<s>"}}}}}});
  const std::int32_t id = tokenizer->token_id("<|im_end|>");
  EXPECT_EQ(id, std::stoi(next));
  EXPECT_TRUE(tokenizer->is_special(id));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", SpecialTokens::kParse), std::vector{id});
  for (const std::int32_t other : tokenizer->encode("<|im_end|> <s>", SpecialTokens::kAsText)) {
    EXPECT_FALSE(tokenizer->is_special(other));
  }
}

TEST(SentencePieceTest, AnOlderFoldersFilesAddTokensAndNameTheEnds) {
  const std::int32_t next = Tokenizer::load(kFolder)->vocab_size();
  const auto with_added = [&](const nlohmann::json& added) {
    const testing::TemporaryFolder folder;
    std::filesystem::copy_file(kFolder / "tokenizer.model", folder.path() / "tokenizer.model");
    folder.write("tokenizer_config.json", R"({"add_eos_token": true})");
    folder.write("special_tokens_map.json", R"({"eos_token": {"content": "<|im_end|>"}})");
    folder.write("added_tokens.json", added.dump());
    return Tokenizer::load(folder.path());
  };
  const auto tokenizer = with_added({{"<plain>", next + 1}, {"<|im_end|>", next}});
  EXPECT_EQ(tokenizer->vocab_size(), next + 2);
  EXPECT_TRUE(tokenizer->is_special(next));
  EXPECT_FALSE(tokenizer->is_special(next + 1));
  EXPECT_EQ(tokenizer->encode("<plain>", SpecialTokens::kAsText), std::vector{next + 1});
  EXPECT_EQ(tokenizer->encode("<|im_end|>", SpecialTokens::kParse), std::vector{next});
  for (const std::int32_t id : tokenizer->encode("<|im_end|>", SpecialTokens::kAsText)) EXPECT_NE(id, next);
  EXPECT_EQ(tokenizer->encode_prompt("").back(), next) << "the end that the map names";
  EXPECT_EQ(tokenizer->decode({next + 1, next}), "<plain>");
  for (const auto& [added, named] : std::vector<std::pair<nlohmann::json, std::string>>{
           {{{"<hole>", next + 1}}, "<hole>: the id before it"}, {{{"<taken>", 1}}, "<taken>: tokenizer.model has"}}) {
    try {
      with_added(added);
      ADD_FAILURE() << added << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("added_tokens.json: " + named), std::string::npos) << error.message();
    }
  }
}

TEST(SentencePieceTest, SettingsThatDoNotFitAreRefusedByName) {
  const std::string hole = std::to_string(Tokenizer::load(kFolder)->vocab_size() + 1);
  const std::vector<std::pair<nlohmann::json, std::string>> refusals{
      {{{"added_tokens_decoder", {{hole, {{"content", "x"}}}}}}, "added_tokens_decoder." + hole},
      {{{"added_tokens_decoder", {{"1", {{"content", "x"}}}}}}, "added_tokens_decoder.1"},
      {{{"added_tokens_decoder", {{"-1", {{"content", "x"}}}}}}, "added_tokens_decoder.-1"},
      {{{"added_tokens_decoder", {{"1x", {{"content", "x"}}}}}}, "added_tokens_decoder.1x"},
      {{{"added_tokens_decoder", {{"1", {{"content", "<s>"}}}, {"01", {{"content", "<s>"}}}}}}, "repeats"},
      {{{"added_tokens_decoder", {{"1", {{"content", 3}}}}}}, "added_tokens_decoder.1.content"},
      {{{"added_tokens_decoder", 3}}, "added_tokens_decoder"},
      {{{"bos_token", 3}}, "bos_token"},
      {{{"add_bos_token", "yes"}}, "add_bos_token"}};
  for (const auto& [settings, named] : refusals) {
    try {
      with_settings(settings);
      ADD_FAILURE() << settings << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("tokenizer_config.json: "), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
    }
  }
}

TEST(SentencePieceTest, AnAnswerBehindAPromptKeepsItsFirstSpace) {
  const auto tokenizer = Tokenizer::load(kFolder);
  const auto prompt = tokenizer->encode_prompt("the fox"), answer = tokenizer->encode("jumps", SpecialTokens::kAsText);
  const auto text = [&](StreamDecoder::Start start) {
    StreamDecoder decoder(tokenizer, start);
    std::string out;
    for (const std::int32_t id : answer) out += decoder.push(id);
    return out + decoder.finish();
  };
  EXPECT_EQ(StreamDecoder::behind(*tokenizer, prompt), StreamDecoder::Start::kMiddle);
  EXPECT_EQ(StreamDecoder::behind(*tokenizer, tokenizer->encode_prompt("")), StreamDecoder::Start::kText);
  EXPECT_EQ(text(StreamDecoder::Start::kMiddle), " jumps");
  EXPECT_EQ(text(StreamDecoder::Start::kText), "jumps");
  std::vector<std::int32_t> whole = prompt;
  whole.insert(whole.end(), answer.begin(), answer.end());
  EXPECT_EQ(tokenizer->decode(whole), tokenizer->decode(prompt) + text(StreamDecoder::Start::kMiddle));
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
