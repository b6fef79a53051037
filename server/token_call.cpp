// SPDX-License-Identifier: Apache-2.0
#include "server/token_call.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "server/message.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxValues = std::size_t{1} << 20;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(const std::string& field, const std::string& why,
                         ErrorCode code = ErrorCode::kInvalidArgument) {
  throw Error(code, "'" + field + "' " + why, {}, field);
}

json parse_object(std::string_view body, std::span<const std::string_view> fields) {
  json parsed = parse_strict_json(body, "request body", {.max_values = kMaxValues});
  if (!parsed.is_object()) throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object");
  for (const auto& [name, value] : parsed.items()) {
    if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
      refuse(name.substr(0, 64), "is not a field of this request");
    }
  }
  return parsed;
}

const json* find(const json& body, const char* name) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> text(const json& body, const char* name) {
  const json* value = find(body, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(name, "must be a string");
  return value->get<std::string>();
}

std::optional<bool> boolean(const json& body, const char* name) {
  const json* value = find(body, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(name, "must be true or false");
  return value->get<bool>();
}

}  // namespace

TokenizeCall parse_tokenize(std::string_view body) {
  const json parsed = parse_object(body, kTokenizeFields);
  TokenizeCall call;
  call.model = text(parsed, "model");
  call.prompt = text(parsed, "prompt");
  const json* messages = find(parsed, "messages");
  if (call.prompt.has_value() == (messages != nullptr)) {
    refuse(call.prompt ? "messages" : "prompt", "send either 'prompt' or 'messages'");
  }
  if (messages != nullptr) call.messages = parse_messages(*messages);
  // A prompt is tokenised as it would be completed; a template brings its own special tokens.
  const bool as_served = call.prompt.has_value();
  if (boolean(parsed, "add_special_tokens").value_or(as_served) != as_served) {
    refuse("add_special_tokens", as_served ? "must be true for a prompt" : "must be false for messages",
           ErrorCode::kUnsupported);
  }
  const auto generation = boolean(parsed, "add_generation_prompt");
  if (generation && as_served) refuse("add_generation_prompt", "is only allowed with 'messages'");
  call.add_generation_prompt = generation.value_or(true);
  call.return_token_strs = boolean(parsed, "return_token_strs").value_or(false);
  return call;
}

DetokenizeCall parse_detokenize(std::string_view body) {
  const json parsed = parse_object(body, kDetokenizeFields);
  DetokenizeCall call;
  call.model = text(parsed, "model");
  const json* tokens = find(parsed, "tokens");
  if (tokens == nullptr || !tokens->is_array()) refuse("tokens", "must be a list of token ids");
  call.tokens.reserve(tokens->size());
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const auto id = exact_integer((*tokens)[i], {0, kMaxInt32});
    if (!id) refuse("tokens[" + std::to_string(i) + "]", "is no token id");
    call.tokens.push_back(static_cast<std::int32_t>(*id));
  }
  return call;
}

std::string text_with_specials(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  std::vector<std::int32_t> run;  // decoded together: a character may span tokens
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= tokenizer.vocab_size()) {
      refuse("tokens[" + std::to_string(i) + "]",
             "is not below the vocabulary's size, " + std::to_string(tokenizer.vocab_size()));
    }
    if (!tokenizer.is_special(ids[i])) {
      run.push_back(ids[i]);
      continue;
    }
    text += tokenizer.decode(run);
    text += tokenizer.token_content(ids[i]);
    run.clear();
  }
  return text + tokenizer.decode(run);
}

}  // namespace slip
