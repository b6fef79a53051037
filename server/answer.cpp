// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/model/utf8.h"
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

// Bytes of a character's middle are none: each character counts where it begins.
std::size_t n_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string_view echo_of(const AnswerIdentity& who, std::size_t choice) {
  if (who.echoes.empty()) return {};
  return who.echoes[choice / static_cast<std::size_t>(who.choices_per_prompt)];
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

// Names a token by its text, or by its bytes where these are no whole characters: as JSON, replaced, they would be one
// another's doubles.
std::string token_name(const std::string& text) {
  if (valid_utf8_prefix(text) == text.size()) return text;
  std::string name = "bytes:";
  for (const char c : text) {
    std::array<char, 5> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    name += hex.data();
  }
  return name;
}

// As OpenAI has it, the token itself is among the best whether it was or not.
Json completion_logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
  std::size_t offset = part.text_offset;
  for (const auto& token : part.logprobs) {
    if (who.tokenizer->is_special(token.token)) continue;
    const std::string text = token_text(*who.tokenizer, token.token);
    Json top = Json::object();
    for (const auto& other : token.top) top[token_name(token_text(*who.tokenizer, other.id))] = sendable(other.logprob);
    top[token_name(text)] = sendable(token.logprob);
    tops.push_back(std::move(top));
    logprobs.push_back(sendable(token.logprob));
    offsets.push_back(offset);
    offset += n_characters(text);
    tokens.push_back(token_name(text));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  if (!who.logprobs) return nullptr;
  return who.endpoint == Endpoint::kChat ? chat_logprobs(who, part) : completion_logprobs(who, part);
}

// What the whole call cost: a prompt counts once, however many choices it has.
RequestFigures sum_of(const AnswerIdentity& who, std::span<const Choice> choices) {
  RequestFigures sum;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const RequestFigures& one = choices[i].finished->figures;
    if (i % static_cast<std::size_t>(who.choices_per_prompt) == 0) sum.prompt_tokens += one.prompt_tokens;
    sum.output_tokens += one.output_tokens;
    sum.steps += one.steps;
    sum.proposed += one.proposed;
    sum.accepted += one.accepted;
    sum.first_rejections += one.first_rejections;
    sum.last_version = std::max(sum.last_version, one.last_version);
  }
  return sum;
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
  if (who.seed) answer["metrics"]["seed"] = *who.seed;
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
  return {{"id", who.id},
          {"object", object},
          {"created", who.created_s},
          {"model", who.model},
          {"system_fingerprint", who.system_fingerprint}};
}

Json chunk(const AnswerIdentity& who, Json choice) {
  Json chunk = frame(who, who.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array({std::move(choice)});
  if (who.include_usage) chunk["usage"] = nullptr;
  return chunk;
}

Json delta_choice(const AnswerIdentity& who, std::size_t index, const std::string& text) {
  Json choice = {{"index", index}};
  if (who.endpoint == Endpoint::kChat) {
    choice["delta"] = {{"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return choice;
}

Json whole_choice(const AnswerIdentity& who, std::size_t index, const Choice& whole) {
  Json choice = {{"index", index}};
  if (who.endpoint == Endpoint::kChat) {
    choice["message"] = {{"role", "assistant"}, {"content", whole.part.text}, {"refusal", nullptr}};
  } else {
    choice["text"] = std::string(echo_of(who, index)) + whole.part.text;
  }
  choice["logprobs"] = logprobs(who, whole.part);
  choice["finish_reason"] = finish_reason(whole.finished->reason);
  return choice;
}

}  // namespace

bool all_finished(std::span<const Choice> choices) {
  return std::all_of(choices.begin(), choices.end(), [](const Choice& one) { return one.finished.has_value(); });
}

std::size_t n_characters(const AnswerIdentity& who, const AnswerPart& part) {
  std::size_t n = 0;
  for (const auto& token : part.logprobs) {
    if (!who.tokenizer->is_special(token.token)) n += n_characters(token_text(*who.tokenizer, token.token));
  }
  return n;
}

std::string whole_answer(const AnswerIdentity& who, std::span<const Choice> choices) {
  Json answer = frame(who, who.endpoint == Endpoint::kChat ? "chat.completion" : "text_completion");
  answer["choices"] = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) answer["choices"].push_back(whole_choice(who, i, choices[i]));
  const RequestFigures figures = sum_of(who, choices);
  answer["usage"] = usage(who, figures);
  add_metrics(answer, who, figures);
  return dump_json(answer);
}

std::string opening_events(const AnswerIdentity& who) {
  std::string events;
  for (std::size_t i = 0; i < who.requests.size(); ++i) {
    Json choice = delta_choice(who, i, std::string(echo_of(who, i)));
    if (who.endpoint == Endpoint::kChat) choice["delta"] = {{"role", "assistant"}, {"content", ""}};
    if (who.endpoint == Endpoint::kChat || !echo_of(who, i).empty()) events += event(chunk(who, std::move(choice)));
  }
  return events;
}

std::string delta_event(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  Json delta = delta_choice(who, choice, part.text);
  delta["logprobs"] = logprobs(who, part);
  return event(chunk(who, std::move(delta)));
}

std::string closing_events(const AnswerIdentity& who, std::size_t choice, std::span<const Choice> choices) {
  Json ending = delta_choice(who, choice, "");
  if (who.endpoint == Endpoint::kChat) ending["delta"] = Json::object();
  ending["finish_reason"] = finish_reason(choices[choice].finished->reason);
  Json last = chunk(who, std::move(ending));
  if (!all_finished(choices)) return event(last);
  const RequestFigures figures = sum_of(who, choices);
  if (!who.include_usage) {
    add_metrics(last, who, figures);
    return event(last);
  }
  std::string events = event(last);
  last["choices"] = Json::array();
  last["usage"] = usage(who, figures);
  add_metrics(last, who, figures);
  return events + event(last);
}

std::string error_event(const Error& error) {
  return "data: " + error_json(error_body(error)) + "\n\n";
}

}  // namespace slip
