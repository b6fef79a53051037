// SPDX-License-Identifier: Apache-2.0
#include "server/openai/message.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/error.h"
#include "server/openai/request_fields.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxMessages = 4096;
constexpr std::size_t kMaxShownBytes = 64;
constexpr std::array<std::string_view, 4> kMessageFields = {"role", "content", "name", "id"};
constexpr std::array<std::string_view, 3> kPartFields = {"type", "text", "cache_control"};

[[noreturn]] void refuse(ErrorCode code, const std::string& place, const std::string& why) {
  throw Error(code, "'" + place + "' " + why, {}, place);
}

[[noreturn]] void refuse(const std::string& place, const std::string& why) {
  refuse(ErrorCode::kInvalidArgument, place, why);
}

std::string parse_part(const json& part, const std::string& place) {
  if (!part.is_object()) refuse(place, "must be an object like {\"type\": \"text\", \"text\": …}");
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) refuse(place + ".type", "must be a string");
  const std::string kind = type->get<std::string>().substr(0, kMaxShownBytes);
  if (kind != "text") {
    refuse(ErrorCode::kUnsupported, place + ".type", "is \"" + kind + "\": only \"text\" parts are supported");
  }
  for (const auto& [name, value] : part.items()) {
    const bool cache_hint = name == "cache_control";  // prompt prefixes are cached anyway
    if (cache_hint && !value.is_object() && !value.is_null()) refuse(place + ".cache_control", "must be an object");
    if (name != "type" && name != "text" && !value.is_null() && !cache_hint) {
      refuse_unknown_field(place, name, kPartFields);
    }
  }
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) refuse(place + ".text", "must be a string");
  return text->get<std::string>();
}

}  // namespace

std::string parse_content(const json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) refuse(place, "must be a string or a list of text parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    text += parse_part(content[i], place + "[" + std::to_string(i) + "]");
  }
  return text;
}

namespace {

std::string parse_role(const json& message, const std::string& place) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) refuse(place, "must be a string");
  const std::string name = role->get<std::string>();
  if (name == "developer") return "system";
  if (name == "system" || name == "user" || name == "assistant") return name;
  if (name == "tool" || name == "function") refuse(ErrorCode::kUnsupported, place, "\"" + name + "\" is not supported");
  refuse(place, "must be \"system\", \"developer\", \"user\" or \"assistant\"");
}

// True for an empty field of an answer, of this or another server, that a client sends back in the next turn.
bool says_nothing(const std::string& name, const json& value) {
  if (name == "annotations" || name == "tool_calls") return value.is_array() && value.empty();
  return name == "reasoning_content" && value == "";
}

std::string read_text(const json& value, const std::string& place) {
  if (!value.is_string()) refuse(place, "must be a string");
  return value.get<std::string>();
}

ChatMessage parse_message(const json& message, const std::string& place) {
  if (!message.is_object()) refuse(place, "must be an object with role and content");
  ChatMessage parsed;
  parsed.role = parse_role(message, place + ".role");
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content" || value.is_null() || says_nothing(name, value)) continue;
    if (name == "name" || name == "id") {
      std::string text = read_text(value, place + "." + name);
      if (name == "name") parsed.name = std::move(text);
      continue;
    }
    const bool known = name == "tool_calls" || name == "tool_call_id" || name == "function_call" || name == "audio" ||
                       name == "refusal" || name == "annotations" || name == "reasoning_content";
    if (!known) refuse_unknown_field(place, name, kMessageFields);
    refuse(ErrorCode::kUnsupported, place + "." + name, "is not supported yet");
  }
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) refuse(place + ".content", "is missing");
  parsed.content = parse_content(*content, place + ".content");
  return parsed;
}

}  // namespace

std::vector<ChatMessage> parse_messages(const json& messages) {
  if (!messages.is_array() || messages.empty()) refuse("messages", "must be a list of at least one message");
  if (messages.size() > kMaxMessages) {
    refuse("messages", "must be a list of at most " + std::to_string(kMaxMessages) + " messages");
  }
  std::vector<ChatMessage> parsed;
  parsed.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    parsed.push_back(parse_message(messages[i], "messages[" + std::to_string(i) + "]"));
  }
  return parsed;
}

}  // namespace slip
