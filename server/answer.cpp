// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/answer_logprobs.h"
#include "server/reply.h"

namespace slip {
namespace {

using Json = nlohmann::ordered_json;

std::string event(const Json& data) {
  return "data: " + dump_json(data) + "\n\n";
}

const char* finish_reason(StopReason reason) {
  return reason == StopReason::kEndToken || reason == StopReason::kStopString ? "stop" : "length";
}

// What the whole call cost: a prompt counts once, however many choices it has.
RequestFigures sum_of(const AnswerIdentity& who, std::span<const Choice> choices) {
  RequestFigures sum;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const RequestFigures& one = choices[i].finished->figures;
    if (i % static_cast<std::size_t>(who.choices_per_prompt) == 0) {
      sum.prompt_tokens += one.prompt_tokens;
      sum.cached_tokens += one.cached_tokens;
    }
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
                {"total_tokens", figures.prompt_tokens + figures.output_tokens},
                {"prompt_tokens_details", {{"cached_tokens", figures.cached_tokens}}}};
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
  choice["logprobs"] = logprobs_json(who, index, whole.part);
  choice["finish_reason"] = finish_reason(whole.finished->reason);
  return choice;
}

}  // namespace

bool all_finished(std::span<const Choice> choices) {
  return std::all_of(choices.begin(), choices.end(), [](const Choice& one) { return one.finished.has_value(); });
}

std::string_view echo_of(const AnswerIdentity& who, std::size_t choice) {
  if (who.echoes.empty()) return {};
  return who.echoes[choice / static_cast<std::size_t>(who.choices_per_prompt)];
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
  delta["logprobs"] = logprobs_json(who, choice, part);
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
