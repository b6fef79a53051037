// SPDX-License-Identifier: Apache-2.0
// The files that a template is read from.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

TEST(ChatTemplateLoadTest, AFolderMayHoldItAsAFileOrNotAtAll) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer_config.json", "{}");
  EXPECT_THROW(ChatTemplate::load(folder.path()), Error);
  folder.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render(*testing::tiny_tokenizer(), {{"user", "x"}}, true).size(), 1U);
  folder.write("other.jinja", "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}");
  const auto other = ChatTemplate::load(folder.path(), folder.path() / "other.jinja");
  EXPECT_EQ(other.render(*testing::tiny_tokenizer(), {{"user", "x"}}, true).size(), 2U);
  EXPECT_THROW(ChatTemplate::load(folder.path(), folder.path() / "none.jinja"), Error);
}

// The error named construct and line, but not the file.
TEST(ChatTemplateLoadTest, AFaultNamesTheFile) {
  const testing::TemporaryFolder folder;
  const auto message = [&](const std::filesystem::path& file) -> std::string {
    try {
      ChatTemplate::load(folder.path(), file);
    } catch (const Error& error) {
      return error.message();
    }
    return {};
  };
  const std::string faulty = "{% for x in %}", too_long(70'000, 'x');
  folder.write("tokenizer_config.json", R"({"chat_template": "{% for x in %}"})");
  EXPECT_TRUE(message({}).starts_with((folder.path() / "tokenizer_config.json: ").string())) << message({});
  for (const std::string& source : {faulty, too_long}) {
    folder.write("chat_template.jinja", source);
    EXPECT_TRUE(message({}).starts_with((folder.path() / "chat_template.jinja: ").string())) << message({});
    const auto other = folder.path() / "other.jinja";
    folder.write("other.jinja", source);
    EXPECT_TRUE(message(other).starts_with(other.string() + ": ")) << message(other);
  }
}

// An empty one was "the prompt is empty", random bytes were a prompt that was too long.
TEST(ChatTemplateLoadTest, WhatIsNoTextIsNoTemplate) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer_config.json", "{}");
  for (const std::string& source :
       {std::string(), std::string(" \n"), std::string("\xff\xfe{{ messages }}"), std::string("a\0b", 3)}) {
    const auto file = folder.path() / "t.jinja";
    folder.write("t.jinja", source);
    try {
      ChatTemplate::load(folder.path(), file);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_TRUE(error.message().starts_with(file.string())) << error.message();
    }
  }
}

TEST(ChatTemplateLoadTest, OfSeveralTemplatesTheDefaultOneCounts) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "xyz"}]})");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render(*testing::tiny_tokenizer(), {}, true).size(), 3U);
  for (const char* config : {R"({"chat_template": [{"name": "tool_use", "template": "t"}]})",
                             R"({"chat_template": [3]})", R"({"chat_template": 3})"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_THROW(ChatTemplate::load(folder.path()), Error) << config;
  }
}

TEST(ChatTemplateLoadTest, AnOlderFoldersMapNamesTheSpecialTokens) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer_config.json",
               nlohmann::json{{"chat_template",
                               "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
                               "{{ eos_token }}"}}
                   .dump());
  folder.write("special_tokens_map.json", R"({"bos_token": "<|user|>", "eos_token": {"content": "<|end|>"}})");
  const auto ids = ChatTemplate::load(folder.path()).render(*testing::tiny_tokenizer(), {{"user", "b"}}, false);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{261, 'b', 260}));
}

}  // namespace
}  // namespace slip
