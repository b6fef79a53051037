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

// What an answer's JSON says besides its text, fixed when the request was taken in.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kChat;
  std::vector<RequestId> requests;      // one a choice: all of the first prompt's, all of the next one's, …
  std::int32_t choices_per_prompt = 1;  // n
  std::vector<std::string> echoes;      // by prompt: its text, when it is to stand before the answer's; else empty
  std::string id;                       // "chatcmpl-…" or "cmpl-…"
  std::string model;
  std::string system_fingerprint;  // as in ServedModel
  // As it was given. One that the server drew is not told: a request that brings it is accepted by another rule, and so
  // answered otherwise.
  std::optional<std::int64_t> seed;
  std::int64_t created_s = 0;
  std::string topic, draft;  // draft empty: plain decoding
  TopicSource topic_source = TopicSource::kNone;
  bool stream = false, include_usage = false, expose_acceptance = true, logprobs = false;
  bool prompt_scored = false;  // with logprobs and echoes: as in Request
  std::shared_ptr<const Tokenizer> tokenizer;
};

// How far the tokens before have come in a choice's text: in its echo, and behind it.
struct TextPlace {
  std::size_t echo_bytes = 0, echo_characters = 0, answer_characters = 0;
};

// Tokens and text gathered from deltas.
struct AnswerPart {
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  TextPlace begins;  // with logprobs
};

// One of the answers a call asked for, as far as it has come.
struct Choice {
  AnswerPart part;
  std::optional<RequestSummary> finished;
};
bool all_finished(std::span<const Choice> choices);
// The prompt's text that stands before the choice's own; empty when there is none.
std::string_view echo_of(const AnswerIdentity& who, std::size_t choice);

// OpenAI's wire forms. Pure; any thread. REQUIRES: one of `choices` for each of who.requests, all finished.
std::string whole_answer(const AnswerIdentity& who, std::span<const Choice> choices);

// The same as server-sent events, `data: {…}\n\n` each. A stream is: opening_events, delta_event…, closing_events of
// each choice, kDoneEvent; or an error_event instead of the rest. The choice that ends last also brings the figures of
// all.
std::string opening_events(const AnswerIdentity& who);  // of every choice: the role, the echo; empty when there is none
std::string delta_event(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part);
std::string closing_events(const AnswerIdentity& who, std::size_t choice, std::span<const Choice> choices);
std::string error_event(const Error& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
inline constexpr std::string_view kHeartbeat = ": waiting\n\n";

}  // namespace slip
