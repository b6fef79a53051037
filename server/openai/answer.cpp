// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer.h"

#include <algorithm>

#include "server/http/json_text.h"
#include "server/http/reply.h"
#include "server/openai/answer_logprobs.h"

namespace slip {
namespace {

std::string event(JsonText data) {
  std::string text = "data: ";
  text += std::move(data).take();
  return text += "\n\n";
}

const char* finish_reason(StopReason reason) {
  return reason == StopReason::kEndToken || reason == StopReason::kStopString ? "stop" : "length";
}

// The figures of the whole call; a prompt counts once, however many choices it has.
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
    sum.accepted_siblings += one.accepted_siblings;
    for (std::size_t by = 0; by < kProposers; ++by) {
      sum.by_proposer[by].proposed += one.by_proposer[by].proposed;
      sum.by_proposer[by].accepted += one.by_proposer[by].accepted;
    }
    sum.last_version = std::max(sum.last_version, one.last_version);
  }
  return sum;
}

void write_usage(JsonText& json, const AnswerIdentity& who, const RequestFigures& figures) {
  json.key("usage");
  json.begin_object();
  json.member("prompt_tokens", figures.prompt_tokens);
  json.member("completion_tokens", figures.output_tokens);
  json.member("total_tokens", figures.prompt_tokens + figures.output_tokens);
  json.key("prompt_tokens_details");
  json.begin_object();
  json.member("cached_tokens", figures.cached_tokens);
  json.end_object();
  if (who.expose_acceptance) {
    json.key("completion_tokens_details");
    json.begin_object();
    const std::int32_t accepted = figures.accepted + figures.accepted_siblings;
    json.member("accepted_prediction_tokens", accepted);
    json.member("rejected_prediction_tokens", figures.proposed - accepted);
    json.end_object();
  }
  json.end_object();
}

void write_acceptance(JsonText& json, const AnswerIdentity& who, const RequestFigures& figures) {
  const bool drafted = !who.draft.empty();
  json.key("speculative_decoding");
  json.begin_object();
  json.member("num_spec_steps", figures.steps);
  json.member("num_draft_tokens", figures.proposed);
  json.member("num_accepted_draft_tokens", figures.accepted);
  json.member("num_first_rejections", figures.first_rejections);
  json.member("num_accepted_siblings", figures.accepted_siblings);
  json.key("by_proposer");
  json.begin_object();
  for (std::size_t by = 0; by < kProposers; ++by) {
    json.key(proposer_name(static_cast<ProposedBy>(by)));
    json.begin_object();
    json.member("proposed", figures.by_proposer[by].proposed);
    json.member("accepted", figures.by_proposer[by].accepted);
    json.end_object();
  }
  json.end_object();
  json.member("draft", drafted ? std::optional(who.draft) : std::nullopt);
  json.member("draft_version", drafted ? std::optional(figures.last_version) : std::nullopt);
  json.member("topic", who.topic);
  json.member("topic_source", topic_source_name(who.topic_source));
  json.end_object();
}

std::optional<double> target_ms(std::int64_t target_us) {
  return target_us == 0 ? std::nullopt : std::optional(static_cast<double>(target_us) / 1000);
}

// The call's targets, and the times of its slowest choice.
void write_slo(JsonText& json, const SloTargets& slo, std::span<const Choice> choices) {
  double tpot_ms = 0, ttft_ms = 0, e2e_ms = 0;
  bool met = true;
  for (const Choice& choice : choices) {
    const RequestFigures& figures = choice.finished->figures;
    tpot_ms = std::max(tpot_ms, measured_tpot_ms(figures));
    ttft_ms = std::max(ttft_ms, measured_ttft_ms(figures));
    e2e_ms = std::max(e2e_ms, measured_e2e_ms(figures));
    met = met && meets(slo, figures);
  }
  json.key("slo");
  json.begin_object();
  const std::string& tier = choices.front().finished->slo_tier;
  if (!tier.empty()) json.member("tier", tier);
  json.member("tpot_ms", target_ms(slo.tpot_us));
  json.member("ttft_ms", target_ms(slo.ttft_us));
  json.member("e2e_ms", target_ms(slo.e2e_us));
  json.member("measured_tpot_ms", tpot_ms);
  json.member("measured_ttft_ms", ttft_ms);
  json.member("measured_e2e_ms", e2e_ms);
  json.member("met", met);
  json.end_object();
}

void write_metrics(JsonText& json, const AnswerIdentity& who, const RequestFigures& figures,
                   std::span<const Choice> choices) {
  const SloTargets slo = choices.empty() ? SloTargets() : choices.front().finished->slo;
  if (!who.seed && !who.expose_acceptance && !slo.any()) return;
  json.key("metrics");
  json.begin_object();
  if (who.seed) json.member("seed", *who.seed);
  if (who.expose_acceptance) write_acceptance(json, who, figures);
  if (slo.any()) write_slo(json, slo, choices);
  json.end_object();
}

// The first members of every answer; the object stays open.
JsonText open_frame(const AnswerIdentity& who, const char* object) {
  JsonText json;
  json.begin_object();
  json.member("id", who.id);
  json.member("object", object);
  json.member("created", who.created_s);
  json.member("model", who.model);
  json.member("system_fingerprint", who.system_fingerprint);
  if (!who.service_tier.empty()) json.member("service_tier", who.service_tier);
  return json;
}

// A chunk with one choice, written by `write_choice`, or with none; the object stays open.
template <class WriteChoice>
JsonText open_chunk(const AnswerIdentity& who, const WriteChoice& write_choice) {
  JsonText json = open_frame(who, who.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
  json.key("choices");
  json.begin_array();
  write_choice(json);
  json.end_array();
  return json;
}

// A choice's own tokens so far, as vLLM counts them; null where only the last chunk has the usage.
void write_usage_so_far(JsonText& json, const AnswerIdentity& who, std::size_t choice, std::size_t n_tokens) {
  if (who.prompt_tokens.empty()) return json.member("usage", nullptr);
  const auto n_prompt =
      static_cast<std::size_t>(who.prompt_tokens[choice / static_cast<std::size_t>(who.choices_per_prompt)]);
  json.key("usage");
  json.begin_object();
  json.member("prompt_tokens", n_prompt);
  json.member("completion_tokens", n_tokens);
  json.member("total_tokens", n_prompt + n_tokens);
  json.end_object();
}

// Ends the chunk of a choice whose answer has so many tokens.
JsonText whole_chunk(JsonText json, const AnswerIdentity& who, std::size_t choice, std::size_t n_tokens) {
  if (who.include_usage) write_usage_so_far(json, who, choice, n_tokens);
  json.end_object();
  return json;
}

// The content of a chat's choice in one chunk.
enum class Delta : std::uint8_t { kRole, kText, kNothing };

void write_delta(JsonText& json, const AnswerIdentity& who, Delta delta, std::string_view text) {
  if (who.endpoint != Endpoint::kChat) return json.member("text", text);
  json.key("delta");
  json.begin_object();
  if (delta == Delta::kRole) json.member("role", "assistant");
  if (delta != Delta::kNothing) json.member("content", text);
  json.end_object();
}

void write_whole_choice(JsonText& json, const AnswerIdentity& who, std::size_t index, const Choice& whole) {
  json.begin_object();
  json.member("index", index);
  if (who.endpoint == Endpoint::kChat) {
    json.key("message");
    json.begin_object();
    json.member("role", "assistant");
    json.member("content", whole.part.text);
    json.member("refusal", nullptr);
    json.end_object();
  } else {
    json.member("text", std::string(echo_of(who, index)) + whole.part.text);
  }
  json.key("logprobs");
  write_logprobs(json, who, index, whole.part);
  json.member("finish_reason", finish_reason(whole.finished->reason));
  json.end_object();
}

// A choice of a chunk without log probabilities and finish reason.
void write_open_choice(JsonText& json, const AnswerIdentity& who, std::size_t index, Delta delta,
                       std::string_view text) {
  json.begin_object();
  json.member("index", index);
  write_delta(json, who, delta, text);
  json.member("logprobs", nullptr);
  json.member("finish_reason", nullptr);
  json.end_object();
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
  JsonText json = open_frame(who, who.endpoint == Endpoint::kChat ? "chat.completion" : "text_completion");
  json.key("choices");
  json.begin_array();
  for (std::size_t i = 0; i < choices.size(); ++i) write_whole_choice(json, who, i, choices[i]);
  json.end_array();
  const RequestFigures figures = sum_of(who, choices);
  write_usage(json, who, figures);
  write_metrics(json, who, figures, choices);
  json.end_object();
  return std::move(json).take();
}

std::string opening_events(const AnswerIdentity& who) {
  const bool chat = who.endpoint == Endpoint::kChat;
  std::string events;
  for (std::size_t i = 0; i < who.requests.size(); ++i) {
    const std::string_view echo = echo_of(who, i);
    if (!chat && echo.empty()) continue;
    events += event(whole_chunk(
        open_chunk(who, [&](JsonText& json) { write_open_choice(json, who, i, Delta::kRole, chat ? "" : echo); }), who,
        i, /*n_tokens=*/0));
  }
  return events;
}

std::string delta_event(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part, std::size_t n_tokens) {
  const auto write_choice = [&](JsonText& json) {
    json.begin_object();
    json.member("index", choice);
    write_delta(json, who, Delta::kText, part.text);
    json.key("logprobs");
    write_logprobs(json, who, choice, part);
    json.member("finish_reason", nullptr);
    json.end_object();
  };
  return event(whole_chunk(open_chunk(who, write_choice), who, choice, n_tokens));
}

std::string closing_events(const AnswerIdentity& who, std::size_t choice, std::span<const Choice> choices) {
  const auto write_choice = [&](JsonText& json) {
    json.begin_object();
    json.member("index", choice);
    write_delta(json, who, Delta::kNothing, "");
    json.member("logprobs", nullptr);
    json.member("finish_reason", finish_reason(choices[choice].finished->reason));
    json.end_object();
  };
  const auto closing = [&] {
    const auto n_tokens = static_cast<std::size_t>(choices[choice].finished->figures.output_tokens);
    return event(whole_chunk(open_chunk(who, write_choice), who, choice, n_tokens));
  };
  if (!all_finished(choices)) return closing();
  const RequestFigures figures = sum_of(who, choices);
  std::string events;
  if (who.include_usage) events = closing();
  JsonText last = who.include_usage ? open_chunk(who, [](JsonText&) {}) : open_chunk(who, write_choice);
  if (who.include_usage) write_usage(last, who, figures);
  write_metrics(last, who, figures, choices);
  last.end_object();
  return events + event(std::move(last));
}

std::string error_event(const Error& error) {
  return "data: " + error_json(error_body(error)) + "\n\n";
}

}  // namespace slip
