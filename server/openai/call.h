// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/openai/response_format.h"
#include "server/openai/slo_tier.h"
#include "text/tokenizer.h"

namespace slip {

enum class Endpoint : std::uint8_t { kChat, kCompletion };

// A completion's prompt: text or token ids.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

inline constexpr const char* kSloHeader = "X-Slipstream-SLO";

// The request headers that a call uses; absent ones are empty.
struct CallHeaders {
  std::optional<std::string> topic;    // X-Slipstream-Topic
  std::optional<std::string> learn;    // X-Slipstream-Learn
  std::optional<std::string> slo;      // kSloHeader
  bool may_ask_slo = true;             // the caller's key allows any speed
  std::vector<std::string> slo_tiers;  // and, if not, these
};

// One validated OpenAI request: every field of the body is known, of its exact type and within its range.
struct CompletionCall {
  Endpoint endpoint = Endpoint::kChat;
  std::optional<std::string> model;
  std::vector<ChatMessage> messages;  // chat
  std::vector<Prompt> prompts;        // completion: at least one
  SamplingParams sampling;            // its grammar is made later from `format`
  ResponseFormat format;
  std::int32_t n = 1;                      // choices per prompt
  std::optional<std::int32_t> max_tokens;  // nullopt: the rest of the context
  std::vector<std::string> stop;
  std::string prediction;         // chat: a text that the answer probably repeats; empty: none
  std::optional<std::int32_t> k;  // most tokens on one path of a proposal; nullopt: the service's k
  TreeLimits tree;                // as in Request
  std::optional<ProposeBy> propose_by;
  SloTargets slo;
  std::string slo_tier;                      // whose targets they are; empty: none's
  std::string service_tier;                  // that serves it, for the answer: slo_tier or "default"; empty: none asked
  bool keep_stop = false;                    // as in Request
  std::vector<std::int32_t> stop_token_ids;  // end the answer, like the model's own end tokens
  bool ignore_eos = false;                   // the model's own end tokens do not end the answer
  bool stream = false, include_usage = false;
  bool continuous_usage = false;   // with include_usage: in each chunk
  bool echo = false;               // completion: the answer begins with the prompt's text and scores
  std::int32_t top_logprobs = -1;  // as in Request
  std::int32_t priority = 0;       // as in Request
  bool learn = true;
  std::optional<std::string> topic_label;
};

// Every field that a body may have, including those that accept only a neutral value.
std::vector<std::string> request_fields(Endpoint endpoint);

// Throws Error{kInvalidArgument | kUnsupported | kPermission} whose param() names the field. Pure; any thread.
CompletionCall parse_request(Endpoint endpoint, std::string_view body, const CallHeaders& headers,
                             std::span<const SloTier> tiers = {});

}  // namespace slip
