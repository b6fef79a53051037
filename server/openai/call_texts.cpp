// SPDX-License-Identifier: Apache-2.0
#include "server/openai/call_texts.h"

#include <algorithm>

#include "common/error.h"

namespace slip {

std::vector<std::int32_t> render(const ServedModel& model, const std::vector<ChatMessage>& messages,
                                 bool add_generation_prompt) {
  if (!model.chat_template) {
    throw Error(ErrorCode::kUnsupported, "this model has no chat template", "use /v1/completions", "messages");
  }
  return model.chat_template->render(*model.tokenizer, messages, add_generation_prompt);
}

namespace {

std::vector<std::int32_t> tokenise(const ServedModel& model, const Prompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) return *ids;
  return model.tokenizer->encode_prompt(std::get<std::string>(prompt));
}

}  // namespace

std::vector<std::vector<std::int32_t>> tokenise(const ServedModel& model, const CompletionCall& call) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (const Prompt& prompt : call.prompts) prompts.push_back(tokenise(model, prompt));
  if (call.endpoint == Endpoint::kCompletion) return prompts;
  return {render(model, call.messages, /*add_generation_prompt=*/true)};
}

std::vector<std::int32_t> predicted_tokens(const ServedModel& model, const CompletionCall& call) {
  if (call.prediction.empty()) return {};
  std::vector<std::int32_t> tokens = model.tokenizer->encode(call.prediction, SpecialTokens::kAsText);
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(model.max_positions)));
  return tokens;
}

std::string echo_of(const ServedModel& model, const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return model.tokenizer->decode(std::get<std::vector<std::int32_t>>(prompt));
}

std::string asked_text(const ServedModel& model, const CompletionCall& call) {
  if (call.endpoint == Endpoint::kCompletion) return echo_of(model, call.prompts.front());
  const auto last = std::find_if(call.messages.rbegin(), call.messages.rend(),
                                 [](const ChatMessage& message) { return message.role == "user"; });
  return last == call.messages.rend() ? std::string() : last->content;
}

}  // namespace slip
