// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"
#include "engine/model/template_program.h"
#include "engine/model/tokenizer.h"

namespace slip {

struct ChatTemplate::Program {
  std::vector<TemplateNode> nodes;
};

namespace {

constexpr std::uint64_t kMaxConfigBytes = 8U << 20;
constexpr std::size_t kMaxMessages = 4096;            // S8
constexpr std::size_t kMaxRenderedBytes = 64U << 20;  // several times the largest request body

using Op = TemplateExpression::Op;

// Python's str.strip(): what Unicode calls white space, and four old separators.
constexpr std::array<std::string_view, 28> kStripped{
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F"};
constexpr std::string_view kIdeographicSpace = "\xE3\x80\x80";

std::size_t blank_at_start(std::string_view text) {
  if (text.starts_with(kIdeographicSpace)) return kIdeographicSpace.size();
  const auto blank = std::find_if(kStripped.begin(), kStripped.end(), [&](auto b) { return text.starts_with(b); });
  return blank == kStripped.end() ? 0 : blank->size();
}

std::size_t blank_at_end(std::string_view text) {
  if (text.ends_with(kIdeographicSpace)) return kIdeographicSpace.size();
  const auto blank = std::find_if(kStripped.begin(), kStripped.end(), [&](auto b) { return text.ends_with(b); });
  return blank == kStripped.end() ? 0 : blank->size();
}

void trim(std::vector<TextPiece>& pieces) {
  for (TextPiece& piece : pieces) {
    std::size_t begin = 0;
    while (const std::size_t n = blank_at_start(std::string_view(piece.text).substr(begin))) begin += n;
    piece.text.erase(0, begin);
    if (!piece.text.empty()) break;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    while (const std::size_t n = blank_at_end(piece->text)) piece->text.resize(piece->text.size() - n);
    if (!piece->text.empty()) break;
  }
}

// One rendering: walks the program and collects text, each stretch marked as the template's own or a message's.
class Renderer {
 public:
  Renderer(const std::vector<ChatMessage>& messages, bool add_generation_prompt)
      : messages_(messages), add_generation_prompt_(add_generation_prompt) {}

  void run(const std::vector<TemplateNode>& nodes) {
    for (const TemplateNode& node : nodes) {
      switch (node.kind) {
        case TemplateNode::Kind::kText:
          append(node.text, SpecialTokens::kParse, pieces_);
          break;
        case TemplateNode::Kind::kOutput:
          append_text(node.expression, pieces_);
          break;
        case TemplateNode::Kind::kIf:
          run(holds(node.expression) ? node.body : node.otherwise);
          break;
        case TemplateNode::Kind::kFor:
          for (current_ = 0; current_ < messages_.size(); ++current_) run(node.body);
          break;
      }
    }
  }

  const std::vector<TextPiece>& pieces() const { return pieces_; }

 private:
  void append(std::string_view text, SpecialTokens specials, std::vector<TextPiece>& out) {
    if (text.empty()) return;
    rendered_bytes_ += text.size();
    if (rendered_bytes_ > kMaxRenderedBytes) {
      throw Error(ErrorCode::kTooLarge, "the rendered chat is over 64 MiB", {}, "messages");
    }
    if (out.empty() || out.back().specials != specials) out.push_back({{}, specials});
    out.back().text += text;
  }

  void append_text(const TemplateExpression& expression, std::vector<TextPiece>& out) {
    switch (expression.op) {
      case Op::kText:
        return append(expression.text, SpecialTokens::kParse, out);
      case Op::kRole:
        return append(messages_[current_].role, SpecialTokens::kParse, out);  // of a fixed set
      case Op::kContent:
        return append(messages_[current_].content, SpecialTokens::kAsText, out);
      case Op::kConcat:
        for (const TemplateExpression& operand : expression.operands) append_text(operand, out);
        return;
      case Op::kTrim: {
        std::vector<TextPiece> inner;
        append_text(expression.operands[0], inner);
        trim(inner);
        for (const TextPiece& piece : inner) append(piece.text, piece.specials, out);
        return;
      }
      default:
        SLIP_CHECK(false, "the parser lets only text be text");
    }
  }

  std::string text_of(const TemplateExpression& expression) {
    std::vector<TextPiece> pieces;
    append_text(expression, pieces);
    std::string text;
    for (const TextPiece& piece : pieces) text += piece.text;
    return text;
  }

  bool equal(const TemplateExpression& a, const TemplateExpression& b) {
    return a.is_text() ? text_of(a) == text_of(b) : holds(a) == holds(b);
  }

  bool holds(const TemplateExpression& expression) {
    const std::vector<TemplateExpression>& operands = expression.operands;
    switch (expression.op) {
      case Op::kBoolean:
        return expression.boolean;
      case Op::kFirst:
        return current_ == 0;
      case Op::kLast:
        return current_ + 1 == messages_.size();
      case Op::kGenerate:
        return add_generation_prompt_;
      case Op::kEqual:
        return equal(operands[0], operands[1]);
      case Op::kNotEqual:
        return !equal(operands[0], operands[1]);
      case Op::kAnd:
        return holds(operands[0]) && holds(operands[1]);
      case Op::kOr:
        return holds(operands[0]) || holds(operands[1]);
      case Op::kNot:
        return !holds(operands[0]);
      default:
        return !text_of(expression).empty();
    }
  }

  const std::vector<ChatMessage>& messages_;
  const bool add_generation_prompt_;
  std::size_t current_ = 0;
  std::size_t rendered_bytes_ = 0;
  std::vector<TextPiece> pieces_;
};

// A role reaches the special tokens, so only these do.
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

// "<s>" or {"content": "<s>", …}, as different versions of transformers write it.
std::string token_spelling(const JsonFields& config, const char* key) {
  const nlohmann::json* token = config.find(key);
  if (token == nullptr) return {};
  if (token->is_object()) return JsonFields(*token, config.where()).optional_string("content").value_or("");
  return config.optional_string(key).value_or("");
}

// In the folder as chat_template.jinja (transformers 5), or in tokenizer_config.json.
std::string read_source(const std::filesystem::path& folder, const JsonFields& config) {
  const std::filesystem::path file = folder / "chat_template.jinja";
  if (std::filesystem::exists(file)) return read_file(file, kMaxConfigBytes);
  const nlohmann::json* source = config.find("chat_template");
  if (source == nullptr) {
    throw Error(ErrorCode::kNotFound, config.where() + " has no chat_template",
                "use completions, or a model with a chat template", "chat_template");
  }
  if (!source->is_string()) {
    throw Error(ErrorCode::kUnsupported, config.where() + ": chat_template must be one template", {}, "chat_template");
  }
  return source->get<std::string>();
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  const nlohmann::json document = parse_strict_json(read_file(path, kMaxConfigBytes), path.string());
  const JsonFields config(document, path.string());
  std::map<std::string, std::string> tokens;
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"})
    tokens[key] = token_spelling(config, key);
  return ChatTemplate(std::make_shared<Program>(Program{parse_template(read_source(folder, config), tokens)}));
}

std::vector<std::int32_t> ChatTemplate::render(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
                                               bool add_generation_prompt) const {
  check_messages(messages);
  Renderer renderer(messages, add_generation_prompt);
  renderer.run(program_->nodes);
  return tokenizer.encode(renderer.pieces());
}

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(const ChatTemplate&) = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

}  // namespace slip
