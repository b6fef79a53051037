// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/openai/call.h"

namespace slip {

// An answer's fixed JSON members, known when the request was accepted.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kChat;
  std::vector<RequestId> requests;      // one per choice: all of the first prompt's, then the next one's, …
  std::int32_t choices_per_prompt = 1;  // n
  std::vector<std::string> echoes;      // by prompt: its text if the answer is to repeat it; else empty
  std::string id;                       // "chatcmpl-…" or "cmpl-…"
  std::string model;
  std::string system_fingerprint;  // as in ServedModel
  std::string service_tier;        // as in CompletionCall; empty: not returned
  // The client's seed. A seed drawn by the server is not returned: a request with a seed uses another acceptance rule,
  // so it would not reproduce the answer.
  std::optional<std::int64_t> seed;
  std::int64_t created_s = 0;
  std::string topic, draft;  // draft is empty for plain decoding
  TopicSource topic_source = TopicSource::kNone;
  bool stream = false, include_usage = false, expose_acceptance = true, logprobs = false;
  bool prompt_scored = false;  // with logprobs and echoes; as in Request
  // By prompt: its tokens, if each chunk of the stream is to have the usage of its choice; else empty.
  std::vector<std::int32_t> prompt_tokens;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// The position of the preceding tokens in a choice's text: within its echo, and after it.
struct TextPlace {
  std::size_t echo_bytes = 0, echo_characters = 0, answer_characters = 0;
};

// Tokens and text collected from deltas.
struct AnswerPart {
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  TextPlace begins;  // with logprobs
};

// One choice of a call, as far as it is generated.
struct Choice {
  AnswerPart part;
  std::optional<RequestSummary> finished;
  std::size_t n_tokens = 0;  // of the answer
};
bool all_finished(std::span<const Choice> choices);
// The prompt's text that precedes the choice's own; empty when there is none.
std::string_view echo_of(const AnswerIdentity& who, std::size_t choice);

// OpenAI's response bodies. Pure; any thread. REQUIRES: `choices` has one finished entry for each of who.requests.
std::string whole_answer(const AnswerIdentity& who, std::span<const Choice> choices);

// The same as server-sent events, `data: {…}\n\n` each. A stream is: opening_events, delta_event…, closing_events of
// each choice, kDoneEvent; an error_event replaces the rest. The last choice to end also sends the usage of all.
//
// opening_events() holds role and echo of every choice; empty when there is neither.
std::string opening_events(const AnswerIdentity& who);
// `n_tokens`: of the choice's answer, with those of this part.
std::string delta_event(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part, std::size_t n_tokens);
std::string closing_events(const AnswerIdentity& who, std::size_t choice, std::span<const Choice> choices);
std::string error_event(const Error& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
inline constexpr std::string_view kHeartbeat = ": waiting\n\n";

}  // namespace slip
