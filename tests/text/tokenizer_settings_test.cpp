// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using Files = std::map<std::string, std::string>;

TokenizerSettings settings_of(const Files& files) {
  const testing::TemporaryFolder folder;
  for (const auto& [name, content] : files) folder.write(name, content);
  return TokenizerSettings::read(folder.path());
}

TEST(TokenizerSettings, AFolderWithoutTheFilesHasTheDefaults) {
  const TokenizerSettings settings = settings_of({});
  EXPECT_TRUE(settings.special_tokens.empty());
  EXPECT_TRUE(settings.added.empty());
  EXPECT_TRUE(settings.add_bos);
  EXPECT_FALSE(settings.add_eos);
}

// As transformers wrote a Llama-2 with tokens of its own before 4.34.
const Files kOlder = {
    {"tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "pad_token": null, "unk_token": "<old>"})"},
    {"special_tokens_map.json", R"({"eos_token": "<|im_end|>", "unk_token": {"content": "<unk>", "lstrip": false},
                                    "additional_special_tokens": ["<|tool|>", {"content": "<|call|>"}]})"},
    {"added_tokens.json", R"({"<|call|>": 32003, "<|im_end|>": 32000, "<|tool|>": 32002, "<plain>": 32001})"}};

TEST(TokenizerSettings, OlderFoldersSayItInTwoMoreFiles) {
  const TokenizerSettings settings = settings_of(kOlder);
  const std::map<std::string, std::string> names = {
      {"bos_token", "<s>"}, {"eos_token", "<|im_end|>"}, {"unk_token", "<unk>"}};
  EXPECT_EQ(settings.special_tokens, names) << "a name in the map wins";
  ASSERT_EQ(settings.added.size(), 4U);
  const std::vector<std::pair<std::string, bool>> expected = {
      {"<|im_end|>", true}, {"<plain>", false}, {"<|tool|>", true}, {"<|call|>", true}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(settings.added[i].id, 32000 + static_cast<std::int32_t>(i));
    EXPECT_EQ(settings.added[i].content, expected[i].first);
    EXPECT_EQ(settings.added[i].flags.special, expected[i].second) << expected[i].first;
  }
}

TEST(TokenizerSettings, NewerFoldersDoNotReadThem) {
  Files newer = kOlder;
  newer["tokenizer_config.json"] = R"({"bos_token": "<s>", "added_tokens_decoder": {"7": {"content": "<seven>"}}})";
  const TokenizerSettings settings = settings_of(newer);
  EXPECT_EQ(settings.special_tokens, (std::map<std::string, std::string>{{"bos_token", "<s>"}}));
  ASSERT_EQ(settings.added.size(), 1U);
  EXPECT_EQ(settings.added[0].content, "<seven>");
}

TEST(TokenizerSettings, WhatIsWrongInThemIsRefusedByFileAndKey) {
  const std::string map = "special_tokens_map.json", added = "added_tokens.json";
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> refusals = {
      {{map, "[]"}, "the file: must be an object"},
      {{map, "{"}, map},
      {{map, R"({"eos_token": 3})"}, "eos_token"},
      {{map, R"({"eos_token": {"content": []}})"}, "eos_token.content"},
      {{map, R"({"eos_token": ")" + std::string(5000, 'x') + "\"}"}, "eos_token: is over"},
      {{map, R"({"additional_special_tokens": "<x>"})"}, "additional_special_tokens: must be a list"},
      {{map, R"({"additional_special_tokens": ["<x>", 3]})"}, "additional_special_tokens[1]"},
      {{map, R"({"additional_special_tokens": [{"contents": "<x>"}]})"}, "additional_special_tokens[0].content"},
      {{added, "[]"}, "the file: must be an object"},
      {{added, R"({"<x>": "3"})"}, "<x>"},
      {{added, R"({"<x>": -1})"}, "<x>"},
      {{added, R"({"<x>": 1.5})"}, "<x>"},
      {{added, R"({"<x>": 1048576})"}, "<x>"},
      {{added, R"({"": 3})"}, "empty"},
      {{added, R"({"<x>": 3, "<y>": 3})"}, "repeats an id, 3"},
      {{added, "{\"" + std::string(5000, 'x') + "\": 3}"}, "too long"}};
  for (const auto& [file, named] : refusals) {
    try {
      settings_of({file});
      ADD_FAILURE() << file.second.substr(0, 80) << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(file.first + ": "), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace slip
