// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

// The body of /tokenize: a prompt as for /v1/completions, or messages as for /v1/chat/completions.
struct TokenizeCall {
  std::optional<std::string> model, prompt;
  std::vector<ChatMessage> messages;  // used without a prompt
  // Those that the tokenizer puts around a text. By default as for answering: around a prompt, but not around messages,
  // whose template writes its own.
  bool add_special_tokens = true;
  bool add_generation_prompt = true;
  bool return_token_strs = false;
};

struct DetokenizeCall {
  std::optional<std::string> model;
  std::vector<std::int32_t> tokens;
};

// All fields of the two bodies.
inline constexpr std::array<std::string_view, 6> kTokenizeFields = {
    "model", "prompt", "messages", "add_special_tokens", "add_generation_prompt", "return_token_strs"};
inline constexpr std::array<std::string_view, 2> kDetokenizeFields = {"model", "tokens"};

// Both throw Error{kInvalidArgument | kUnsupported} whose param() names the field. Pure; any thread.
TokenizeCall parse_tokenize(std::string_view body);
DetokenizeCall parse_detokenize(std::string_view body);

// The text of a client's token ids, including special tokens. Error{kInvalidArgument} naming the first unknown id.
std::string text_with_specials(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<std::int32_t>& ids);

}  // namespace slip
