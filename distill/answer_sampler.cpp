// SPDX-License-Identifier: Apache-2.0
#include "distill/answer_sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/clock.h"
#include "common/error.h"

namespace slip {
namespace {

constexpr std::size_t kMostPrompts = 256, kMostPromptTokens = 65'536;
constexpr std::int32_t kLeastAnswerTokens = 16, kMostAnswerTokens = 256;
constexpr std::uint64_t kFirstId = std::uint64_t{1} << 63;  // far above the ids of clients' requests

}  // namespace

void AnswerSampler::add(const ReplayRecord& record, std::int32_t n_answers) {
  if (n_answers < 1) return;
  Prompt prompt;
  prompt.source = {record.request, record.name, record.group, record.created_us, 0};
  prompt.tenant = record.tenant;
  prompt.tokens.assign(record.tokens.begin(), record.tokens.begin() + record.prompt_tokens);
  prompt.max_tokens =
      std::clamp(static_cast<std::int32_t>(record.target.size()), kLeastAnswerTokens, kMostAnswerTokens);
  prompt.n_left = n_answers;
  n_tokens_ += prompt.tokens.size();
  prompts_.push_back(std::move(prompt));
  while (prompts_.size() > kMostPrompts || n_tokens_ > kMostPromptTokens) {
    n_tokens_ -= prompts_.front().tokens.size();
    prompts_.pop_front();
  }
}

void AnswerSampler::forget(const PurgeScope& scope) {
  std::erase_if(prompts_, [&](const Prompt& prompt) {
    return scope.contains(prompt.source.call, prompt.source.name, prompt.tenant, prompt.source.created_us);
  });
  n_tokens_ = std::accumulate(prompts_.begin(), prompts_.end(), std::size_t{0},
                              [](std::size_t sum, const Prompt& prompt) { return sum + prompt.tokens.size(); });
}

Request AnswerSampler::next(RouteTag route, std::uint64_t n) {
  SLIP_CHECK(!prompts_.empty(), "there is a prompt to answer");
  const auto newest = std::max_element(prompts_.rbegin(), prompts_.rend(), [](const Prompt& one, const Prompt& other) {
    return one.n_left < other.n_left;
  });
  Request request;
  request.id = RequestId{kFirstId + n};
  request.source = newest->source;
  request.source->asked_us = monotonic_us();
  request.tenant = newest->tenant;
  request.route = route;
  request.prompt = newest->tokens;
  request.max_tokens = newest->max_tokens;
  request.sampling.temperature = 1;
  request.sampling.seed = n;
  request.k = 0;
  if (--newest->n_left == 0) {
    n_tokens_ -= newest->tokens.size();
    prompts_.erase(std::next(newest).base());
  }
  return request;
}

}  // namespace slip
