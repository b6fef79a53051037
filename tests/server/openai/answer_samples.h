// SPDX-License-Identifier: Apache-2.0
// Sample answers for the response writers, and helpers to read the responses.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/answer_channel.h"
#include "server/openai/routes.h"

namespace slip::testing {

inline AnswerIdentity identity(Endpoint endpoint = Endpoint::kChat) {
  AnswerIdentity who;
  who.endpoint = endpoint;
  who.id = "chatcmpl-1";
  who.model = std::string("a-model");
  who.system_fingerprint = "fp_0123";
  who.created_s = 5;
  who.topic = "sql";
  who.topic_source = TopicSource::kLabel;
  who.draft = "sql";
  who.requests = {RequestId{1}};
  return who;
}

inline RequestSummary summary(StopReason reason) {
  RequestSummary summary;
  summary.reason = reason;
  summary.figures.prompt_tokens = 4;
  summary.figures.output_tokens = 6;
  summary.figures.steps = 3;
  summary.figures.proposed = 9;
  summary.figures.accepted = 3;
  summary.figures.first_rejections = 2;
  summary.figures.by_proposer = {{{.proposed = 6, .accepted = 1}, {.proposed = 3, .accepted = 2}}};
  summary.figures.last_version = 7;
  return summary;
}

inline std::shared_ptr<const Tokenizer> demo_words() {
  return Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
}

inline std::int32_t first_special(const Tokenizer& tokenizer) {
  std::int32_t id = 0;
  while (!tokenizer.is_special(id)) ++id;
  return id;
}

inline std::vector<Choice> one_choice(AnswerPart part, const RequestSummary& ended) {
  return {{std::move(part), ended}};
}

inline std::string whole(const AnswerIdentity& who, AnswerPart part, const RequestSummary& ended) {
  return whole_answer(who, one_choice(std::move(part), ended));
}

inline std::string closing(const AnswerIdentity& who, const RequestSummary& ended) {
  return closing_events(who, 0, one_choice({}, ended));
}

inline std::string streamed(const AnswerIdentity& who, AnswerChannel::Taken& taken) {
  std::vector<Choice> choices(1);
  gather(who, 0, taken, /*kept=*/false, choices[0]);
  return stream_text(who, 0, taken, choices);
}

// Parses the events of a stream; each is one `data: ` line and an empty line.
inline std::vector<nlohmann::json> events(const std::string& text) {
  std::vector<nlohmann::json> parsed;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "an event without its end";
    const std::string line = text.substr(at, end - at);
    EXPECT_EQ(line.find('\n'), std::string::npos) << "an event of more than one line";
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    if (line != "data: [DONE]") parsed.push_back(nlohmann::json::parse(line.substr(6)));
    at = end + 2;
  }
  return parsed;
}

}  // namespace slip::testing
