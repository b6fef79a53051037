// SPDX-License-Identifier: Apache-2.0
// What Jinja makes of chat templates (tools/goldens_chat_templates.py), and of others where
// SLIPSTREAM_CHAT_TEMPLATE_CASES names a file with them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "common/error.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using nlohmann::json;

struct Rendered {
  bool refused = false;
  std::string text, parsed;  // parsed: what special tokens are looked for in
};

Rendered render(const ChatTemplate& chat, const json& conversation, bool add_generation_prompt) {
  std::vector<ChatMessage> messages;
  for (const json& message : conversation) messages.push_back({message.at("role"), message.at("content")});
  Rendered out;
  try {
    for (const TextPiece& piece : chat.render(messages, add_generation_prompt)) {
      out.text += piece.text;
      if (piece.specials == SpecialTokens::kParse) out.parsed += piece.text;
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    out.refused = true;
  }
  return out;
}

std::map<std::string, ChatTemplate> load_all(const json& document) {
  std::map<std::string, ChatTemplate> out;
  for (const auto& [name, source] : document.at("templates").items()) {
    const testing::TemporaryFolder folder;
    folder.write("tokenizer_config.json", document.at("tokens").dump());
    folder.write("chat_template.jinja", source.get<std::string>());
    try {
      out.emplace(name, ChatTemplate::load(folder.path()));
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.message();
    }
  }
  return out;
}

void expect_equal(const std::string& file, std::size_t least_cases) {
  const json document = json::parse(std::ifstream(file));
  const std::map<std::string, ChatTemplate> chats = load_all(document);
  std::size_t compared = 0, different = 0;
  for (const json& golden : document.at("cases")) {
    const auto chat = chats.find(golden.at("template"));
    if (chat == chats.end()) continue;
    const json& conversation = document.at("conversations").at(golden.at("conversation").get<std::string>());
    const Rendered found = render(chat->second, conversation, golden.at("add_generation_prompt"));
    const std::string named = golden.at("template").get<std::string>() + " of " + golden.at("conversation").dump();
    const json text = found.refused ? json() : json(found.text);
    if (text != golden.at("text") && ++different <= 10) {
      ADD_FAILURE() << named << ": " << text << "\ninstead of " << golden.at("text");
    }
    EXPECT_EQ(found.parsed.find("HOSTILE"), std::string::npos) << named << " lets content reach special tokens";
    ++compared;
  }
  std::printf("%zu templates, %zu renderings, %zu differ\n", chats.size(), compared, different);
  EXPECT_EQ(different, 0U);
  EXPECT_GE(compared, least_cases);
}

TEST(ChatTemplateReferenceTest, TemplatesInTheMannerOfRealOnes) {
  expect_equal(std::string(SLIPSTREAM_SOURCE_DIR) + "/tests/data/chat_templates/cases.json", 300);
}

TEST(ChatTemplateReferenceTest, OthersByHand) {
  const char* file = std::getenv("SLIPSTREAM_CHAT_TEMPLATE_CASES");
  if (file != nullptr) expect_equal(file, 1);
}

}  // namespace
}  // namespace slip
