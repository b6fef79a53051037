// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/request.h"
#include "server/call.h"

namespace slip {

// What an answer's JSON says besides its text, fixed when the request was taken in.
struct AnswerIdentity {
  Endpoint endpoint = Endpoint::kChat;
  RequestId request;
  std::string id;  // "chatcmpl-…" or "cmpl-…"
  std::string model;
  std::int64_t created_s = 0;
  std::string topic, draft;  // draft empty: plain decoding
  TopicSource topic_source = TopicSource::kNone;
  bool stream = false, include_usage = false, expose_acceptance = true, logprobs = false;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Tokens and text gathered from deltas.
struct AnswerPart {
  std::string text;
  std::vector<TokenLogprobs> logprobs;
};

// OpenAI's wire forms. Pure; any thread.
std::string whole_answer(const AnswerIdentity& who, const AnswerPart& part, const RequestSummary& summary);

// The same as server-sent events, `data: {…}\n\n` each. A stream is: opening_event, delta_event…, closing_events,
// kDoneEvent; or an error_event instead of the rest.
std::string opening_event(const AnswerIdentity& who);  // the role; empty for completions
std::string delta_event(const AnswerIdentity& who, const AnswerPart& part);
std::string closing_events(const AnswerIdentity& who, const RequestSummary& summary);
std::string error_event(const Error& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
inline constexpr std::string_view kHeartbeat = ": waiting\n\n";

}  // namespace slip
