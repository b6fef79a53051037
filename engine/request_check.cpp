// SPDX-License-Identifier: Apache-2.0
#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/counted.h"
#include "engine/speculative/proposal.h"

namespace slip {

namespace {

constexpr float kHottest = 2.0F;

void require(bool condition, const char* param, const std::string& message) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, message, {}, param);
}

void check_tokens(const std::vector<std::int32_t>& tokens, const char* param, std::int32_t vocab_size) {
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < vocab_size, param,
            std::string(param) + " holds token id " + std::to_string(token) + ", outside the vocabulary of " +
                std::to_string(vocab_size));
  }
}

void check_sampling(const SamplingParams& sampling) {
  // Written so that NaN fails.
  require(sampling.temperature >= 0 && sampling.temperature <= kHottest, "temperature",
          "temperature must be between 0 and 2");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p", "top_p must be above 0 and at most 1");
  require(sampling.top_k >= 0, "top_k", "top_k must not be negative");
  require(sampling.min_p >= 0 && sampling.min_p <= 1, "min_p", "min_p must be between 0 and 1");
  require(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= 2, "repetition_penalty",
          "repetition_penalty must be above 0 and at most 2");
  require(std::abs(sampling.presence_penalty) <= 2, "presence_penalty", "presence_penalty must be between -2 and 2");
  require(std::abs(sampling.frequency_penalty) <= 2, "frequency_penalty", "frequency_penalty must be between -2 and 2");
}

void check_logit_bias(const std::vector<LogitBias>& biases, std::int32_t vocab_size) {
  std::vector<std::int32_t> ids;
  for (const LogitBias& one : biases) {
    ids.push_back(one.id);
    require(std::abs(one.bias) <= 100, "logit_bias", "logit_bias must be between -100 and 100");
  }
  check_tokens(ids, "logit_bias", vocab_size);
  std::sort(ids.begin(), ids.end());
  require(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "logit_bias", "logit_bias names a token twice");
}

void check_length(const Request& request, const RequestLimits& limits) {
  const std::int64_t total = static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens;
  const auto lengths =
      counted(request.prompt.size(), "prompt token") + " and max_tokens " + std::to_string(request.max_tokens);
  if (total > limits.max_positions) {
    throw Error(ErrorCode::kTooLarge,
                lengths + " exceed the model's context of " + std::to_string(limits.max_positions) + " tokens",
                "shorten the prompt or lower max_tokens", "max_tokens");
  }
  if (total > limits.cache_tokens) {
    throw Error(ErrorCode::kTooLarge,
                lengths + " exceed the server's cache of " + std::to_string(limits.cache_tokens) + " tokens",
                "shorten the prompt, lower max_tokens or serve with a larger cache", "max_tokens");
  }
}

void check_tree(const TreeLimits& tree) {
  const auto check = [](std::int32_t limit, const char* param, std::int32_t most) {
    require(limit >= 1 && limit <= most, param, std::string(param) + " must be between 1 and " + std::to_string(most));
  };
  check(tree.nodes, "tree.nodes", kMaxProposalNodes);
  check(tree.depth, "tree.depth", kMaxProposalNodes);
  check(tree.width, "tree.width", kMaxTreeWidth);
}

void check_draft(const Request& request, std::int32_t vocab_size) {
  const auto live = request.draft == nullptr ? nullptr : request.draft->get();
  if (live == nullptr) return;
  const std::int32_t draft_vocab = live->weights->config.vocab_size;
  require(draft_vocab == vocab_size, "draft",
          "draft " + live->name + " has a vocabulary of " + std::to_string(draft_vocab) +
              " tokens, the target one of " + std::to_string(vocab_size));
}

}  // namespace

void check_request(const Request& request, const RequestLimits& limits) {
  require(request.sink != nullptr, "sink", "a request needs somewhere to send its answer");
  require(!request.prompt.empty(), "prompt", "the prompt is empty");
  check_tokens(request.prompt, "prompt", limits.vocab_size);
  // Named by the field that clients use; the model's own end tokens are checked when its configuration is read.
  check_tokens(request.end_ids, "stop_token_ids", limits.vocab_size);
  check_tokens(request.prediction, "prediction", limits.vocab_size);
  check_sampling(request.sampling);
  check_logit_bias(request.sampling.logit_bias, limits.vocab_size);
  require(request.max_tokens >= 0, "max_tokens", "max_tokens must not be negative");
  require(request.sampling.min_tokens >= 0 && request.sampling.min_tokens <= request.max_tokens, "min_tokens",
          "min_tokens must be between 0 and max_tokens, which is at most what the context leaves: " +
              std::to_string(request.max_tokens));
  require(request.sampling.grammar == nullptr || limits.has_tokenizer, "response_format",
          "response_format needs a tokenizer");
  require(request.sampling.grammar == nullptr || request.sampling.min_tokens == 0, "min_tokens",
          "min_tokens cannot be combined with response_format: the document may be complete earlier");
  check_length(request, limits);
  require(request.stop_strings.empty() || limits.has_tokenizer, "stop", "stop strings need a tokenizer");
  const auto is_empty = [](const std::string& stop) { return stop.empty(); };
  require(std::none_of(request.stop_strings.begin(), request.stop_strings.end(), is_empty), "stop",
          "a stop string must not be empty");
  require(request.top_logprobs >= -1 && request.top_logprobs <= limits.vocab_size, "top_logprobs",
          "top_logprobs must be between 0 and the vocabulary's size");
  require(!request.score_prompt || request.top_logprobs >= 0, "top_logprobs",
          "a prompt is scored only with top_logprobs");
  require(!request.k || (*request.k >= 0 && *request.k <= kMaxProposalNodes), "k",
          "k must be between 0 and " + std::to_string(kMaxProposalNodes));
  check_tree(request.tree);
  require(request.priority >= -kMostPriority && request.priority <= kMostPriority, "priority",
          "priority must be between -" + std::to_string(kMostPriority) + " and " + std::to_string(kMostPriority));
  check_draft(request, limits.vocab_size);
}

}  // namespace slip
