// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/sampling/distribution.h"
#include "server/openai/response_format.h"
#include "text/tokenizer.h"

namespace slip {

enum class Endpoint : std::uint8_t { kChat, kCompletion };

// What a completion goes on from: text, or the token ids it would become.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

// The request headers that mean something to a call; absent ones are empty.
struct CallHeaders {
  std::optional<std::string> topic;  // X-Slipstream-Topic
  std::optional<std::string> learn;  // X-Slipstream-Learn
};

// One OpenAI request, checked: every field present in the body was understood, of its exact type and within its range.
struct CompletionCall {
  Endpoint endpoint = Endpoint::kChat;
  std::optional<std::string> model;
  std::vector<ChatMessage> messages;  // chat
  std::vector<Prompt> prompts;        // completion: at least one
  SamplingParams sampling;            // its grammar is made from `format` when the request is
  ResponseFormat format;
  std::int32_t n = 1;                      // choices for each prompt
  std::optional<std::int32_t> max_tokens;  // absent: the rest of the context
  std::vector<std::string> stop;
  bool keep_stop = false;                    // as in Request
  std::vector<std::int32_t> stop_token_ids;  // end the answer, besides the model's own end tokens
  bool ignore_eos = false;                   // the model's own end tokens do not
  bool stream = false, include_usage = false;
  bool echo = false;               // completion: the prompt's text stands before the answer's, its scores likewise
  std::int32_t top_logprobs = -1;  // as in Request
  bool learn = true;
  std::optional<std::string> topic_label;
};

// Every field that a body may have, also those of which only the value that changes nothing is taken.
std::vector<std::string> request_fields(Endpoint endpoint);

// Throws Error{kInvalidArgument | kUnsupported} whose param() names the field. Pure; any thread.
CompletionCall parse_request(Endpoint endpoint, std::string_view body, const CallHeaders& headers);

}  // namespace slip
