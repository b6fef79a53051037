// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "server/reply.h"

namespace slip {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNoLogprob = -9999.0;  // JSON has no infinity

std::string event(const Json& data) {
  return "data: " + dump_json(data) + "\n\n";
}

const char* finish_reason(StopReason reason) {
  return reason == StopReason::kEndToken || reason == StopReason::kStopString ? "stop" : "length";
}

double sendable(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kNoLogprob;
}

std::string token_text(const Tokenizer& tokenizer, std::int32_t id) {
  const auto bytes = tokenizer.token_bytes(id);
  return std::string(bytes.empty() ? tokenizer.token_content(id) : bytes);
}

Json chat_logprob(const Tokenizer& tokenizer, std::int32_t id, float logprob) {
  const std::string text = token_text(tokenizer, id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return {{"token", text}, {"logprob", sendable(logprob)}, {"bytes", std::move(bytes)}};
}

Json chat_logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  Json content = Json::array();
  for (const auto& token : part.logprobs) {
    if (who.tokenizer->is_special(token.token)) continue;  // the end token is no part of the text
    Json entry = chat_logprob(*who.tokenizer, token.token, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& other : token.top) {
      entry["top_logprobs"].push_back(chat_logprob(*who.tokenizer, other.id, other.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array();
  for (const auto& token : part.logprobs) {
    if (who.tokenizer->is_special(token.token)) continue;
    tokens.push_back(token_text(*who.tokenizer, token.token));
    logprobs.push_back(sendable(token.logprob));
    Json top = Json::object();
    for (const auto& other : token.top) top[token_text(*who.tokenizer, other.id)] = sendable(other.logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)}, {"token_logprobs", std::move(logprobs)}, {"top_logprobs", std::move(tops)}};
}

Json logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  if (!who.logprobs) return nullptr;
  return who.endpoint == Endpoint::kChat ? chat_logprobs(who, part) : completion_logprobs(who, part);
}

Json usage(const AnswerIdentity& who, const RequestFigures& figures) {
  Json usage = {{"prompt_tokens", figures.prompt_tokens},
                {"completion_tokens", figures.output_tokens},
                {"total_tokens", figures.prompt_tokens + figures.output_tokens}};
  if (who.expose_acceptance) {
    usage["completion_tokens_details"] = {{"accepted_prediction_tokens", figures.accepted},
                                          {"rejected_prediction_tokens", figures.proposed - figures.accepted}};
  }
  return usage;
}

void add_metrics(Json& answer, const AnswerIdentity& who, const RequestFigures& figures) {
  if (!who.expose_acceptance) return;
  const bool drafted = !who.draft.empty();
  answer["metrics"]["speculative_decoding"] = {{"num_spec_steps", figures.steps},
                                               {"num_draft_tokens", figures.proposed},
                                               {"num_accepted_draft_tokens", figures.accepted},
                                               {"num_first_rejections", figures.first_rejections},
                                               {"draft", drafted ? Json(who.draft) : Json(nullptr)},
                                               {"draft_version", drafted ? Json(figures.last_version) : Json(nullptr)},
                                               {"topic", who.topic},
                                               {"topic_source", topic_source_name(who.topic_source)}};
}

Json frame(const AnswerIdentity& who, const char* object) {
  return {{"id", who.id}, {"object", object}, {"created", who.created_s}, {"model", who.model}};
}

Json chunk(const AnswerIdentity& who, Json choice) {
  Json chunk = frame(who, who.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array({std::move(choice)});
  if (who.include_usage) chunk["usage"] = nullptr;
  return chunk;
}

Json delta_choice(const AnswerIdentity& who, const AnswerPart& part) {
  Json choice = {{"index", 0}};
  if (who.endpoint == Endpoint::kChat) {
    choice["delta"] = {{"content", part.text}};
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = logprobs(who, part);
  choice["finish_reason"] = nullptr;
  return choice;
}

}  // namespace

std::string whole_answer(const AnswerIdentity& who, const AnswerPart& part, const RequestSummary& summary) {
  const bool chat = who.endpoint == Endpoint::kChat;
  Json answer = frame(who, chat ? "chat.completion" : "text_completion");
  Json choice = {{"index", 0}};
  if (chat) {
    choice["message"] = {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}};
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = logprobs(who, part);
  choice["finish_reason"] = finish_reason(summary.reason);
  answer["choices"] = Json::array({std::move(choice)});
  answer["usage"] = usage(who, summary.figures);
  add_metrics(answer, who, summary.figures);
  return dump_json(answer);
}

std::string opening_event(const AnswerIdentity& who) {
  if (who.endpoint != Endpoint::kChat) return {};
  Json choice = {{"index", 0},
                 {"delta", {{"role", "assistant"}, {"content", ""}}},
                 {"logprobs", nullptr},
                 {"finish_reason", nullptr}};
  return event(chunk(who, std::move(choice)));
}

std::string delta_event(const AnswerIdentity& who, const AnswerPart& part) {
  return event(chunk(who, delta_choice(who, part)));
}

std::string closing_events(const AnswerIdentity& who, const RequestSummary& summary) {
  Json choice = {{"index", 0}};
  if (who.endpoint == Endpoint::kChat) {
    choice["delta"] = Json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(summary.reason);
  Json last = chunk(who, std::move(choice));
  if (!who.include_usage) {
    add_metrics(last, who, summary.figures);
    return event(last);
  }
  std::string events = event(last);
  last["choices"] = Json::array();
  last["usage"] = usage(who, summary.figures);
  add_metrics(last, who, summary.figures);
  return events + event(last);
}

std::string error_event(const Error& error) {
  return "data: " + error_json(error_body(error)) + "\n\n";
}

}  // namespace slip
