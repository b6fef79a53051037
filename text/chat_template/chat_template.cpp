// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"
#include "text/chat_template/template_interpreter.h"
#include "text/chat_template/template_program.h"
#include "text/tokenizer.h"
#include "text/tokenizer_settings.h"
#include "text/utf8.h"

namespace slip {

struct ChatTemplate::Program {
  std::vector<TemplateNode> nodes;
  TemplateInterpreter::Names names;  // globals that do not depend on the messages
};

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxTemplateBytes = 1U << 20;
constexpr std::size_t kMaxMessages = 4096;  // docs/security.md, S8

// Roles are restricted because a role's text is parsed for special tokens.
void check_messages(const std::vector<ChatMessage>& messages) {
  if (messages.size() > kMaxMessages) {
    throw Error(ErrorCode::kTooLarge, "a chat has at most " + std::to_string(kMaxMessages) + " messages", {},
                "messages");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant") continue;
    throw Error(ErrorCode::kInvalidArgument, "messages[" + std::to_string(i) + "] has an unknown role",
                "a role is system, user or assistant", "messages");
  }
}

// `templates` is one template or a list of named ones. From a list, takes the template for chats without tools.
std::string read_listed(const json& templates, const std::string& where) {
  if (templates.is_string()) return templates.get<std::string>();
  if (templates.is_array()) {
    for (const json& entry : templates) {
      const JsonFields fields(entry, where + ": chat_template");
      if (fields.optional_string("name") != "default") continue;
      if (auto source = fields.optional_string("template")) return *std::move(source);
    }
  }
  throw Error(ErrorCode::kUnsupported, where + ": chat_template must be a text, or a list with one named default",
              "give a template with --chat-template FILE", "chat_template");
}

// A template's text and the name of its file.
struct Source {
  std::string file, text;
};

// Looks in `given`; without it in the folder's chat_template.jinja, then in tokenizer_config.json.
Source read_source(const std::filesystem::path& folder, const std::filesystem::path& given, const json& config) {
  const std::filesystem::path own = folder / "chat_template.jinja";
  const std::filesystem::path file = given.empty() && std::filesystem::exists(own) ? own : given;
  if (!file.empty()) return {file.string(), read_file(file, kMaxTemplateBytes)};
  const std::string where = (folder / "tokenizer_config.json").string();
  const json* source = JsonFields(config, where).find("chat_template");
  if (source != nullptr) return {where, read_listed(*source, where)};
  throw Error(ErrorCode::kNotFound, where + " has no chat_template",
              "use completions, or give a template with --chat-template FILE", "chat_template");
}

std::vector<TemplateNode> parse_source(const Source& source) {
  if (valid_utf8_prefix(source.text) < source.text.size() || source.text.find('\0') != std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, source.file + " is no text in UTF-8", "name a Jinja file",
                "chat_template");
  }
  if (source.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, source.file + " holds an empty chat template", "name a Jinja file",
                "chat_template");
  }
  try {
    return parse_template(source.text);
  } catch (const Error& error) {
    throw Error(error.code(), source.file + ": " + error.message(), error.hint(), error.param());
  }
}

TemplateInterpreter::Names fixed_names(const TokenizerSettings& settings) {
  using Function = TemplateValue::Function;
  TemplateInterpreter::Names names{{"messages", {}},
                                   {"add_generation_prompt", {}},
                                   {"tools", TemplateValue::none()},
                                   {"documents", TemplateValue::none()},
                                   {"namespace", TemplateValue::function(Function::kNamespace)},
                                   {"raise_exception", TemplateValue::function(Function::kRaiseException)},
                                   {"strftime_now", TemplateValue::function(Function::kStrftimeNow)},
                                   {"range", TemplateValue::function(Function::kRange)},
                                   {"dict", TemplateValue::function(Function::kDict)}};
  for (const auto& [name, spelling] : settings.special_tokens) {
    names.emplace_back(name, TemplateValue::text(TemplateText::own(spelling)));
  }
  return names;
}

TemplateValue list_of(const std::vector<ChatMessage>& messages) {
  const TemplateWork work;
  TemplateValue::Items items;
  for (const ChatMessage& message : messages) {
    TemplateValue::Map map;
    map.entries.emplace_back("role", TemplateValue::text(TemplateText::own(message.role)));
    map.entries.emplace_back("content", TemplateValue::text(TemplateText::of_message(message.content)));
    if (message.name) map.entries.emplace_back("name", TemplateValue::text(TemplateText::of_message(*message.name)));
    items.push_back(TemplateValue::map(std::move(map), work));
  }
  return TemplateValue::list(std::move(items), work);
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const json config = read_tokenizer_config(folder);
  const auto settings = TokenizerSettings::read(folder);
  const Source source = read_source(folder, file, config);
  return ChatTemplate(std::make_shared<Program>(Program{parse_source(source), fixed_names(settings)}));
}

std::vector<std::int32_t> ChatTemplate::render(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
                                               bool add_generation_prompt) const {
  return tokenizer.encode(render(messages, add_generation_prompt));
}

std::vector<TextPiece> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                            bool add_generation_prompt) const {
  check_messages(messages);
  TemplateInterpreter::Names names = program_->names;
  names[0].second = list_of(messages);
  names[1].second = TemplateValue::boolean(add_generation_prompt);
  return TemplateInterpreter(std::move(names)).run(program_->nodes).pieces();
}

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(const ChatTemplate&) = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

}  // namespace slip
