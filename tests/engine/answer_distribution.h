// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/common/test_clock.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/sampling/reference_transform.h"
#include "tests/engine/toy_proposer.h"

namespace slip::testing {

// The smallest setting in which an answer's distribution can be written down and every parameter matters: four tokens,
// one of which ends the answer, and at most three tokens per answer. An answer that ends early is counted in the cell
// that repeats the end token.
inline constexpr std::int32_t kDistributionVocab = 4, kDistributionTokens = 3, kDistributionEnd = 3;
inline constexpr std::size_t kDistributionCells = 64;
inline const std::vector<std::int32_t> kDistributionPrompt{1, 1};
inline const std::vector<std::int32_t> kDistributionEnds{kDistributionEnd};

inline ToyLanguage distribution_language() {
  return {.vocab_size = kDistributionVocab, .seed = 3, .spread = 2.5F, .lowest = -1};
}

inline std::size_t distribution_cell(std::span<const std::int32_t> answer) {
  std::size_t cell = 0;
  for (std::size_t i = 0; i < kDistributionTokens; ++i) {
    cell = cell * kDistributionVocab + static_cast<std::size_t>(i < answer.size() ? answer[i] : kDistributionEnd);
  }
  return cell;
}

// Adds the probability of every answer that begins with `tokens` to `distribution`.
inline void add_answers(const SamplingParams& sampling, Misreading misreading, std::vector<std::int32_t>& tokens,
                        double probability, std::vector<double>& distribution) {
  const auto answer = std::span<const std::int32_t>(tokens).subspan(kDistributionPrompt.size());
  if (answer.size() == kDistributionTokens || (!answer.empty() && answer.back() == kDistributionEnd)) {
    distribution[distribution_cell(answer)] += probability;
    return;
  }
  const RowContext context{tokens, static_cast<std::int32_t>(kDistributionPrompt.size()), kDistributionEnds};
  const Distribution p = reference_transform(distribution_language().logits(tokens), sampling, context, misreading);
  for (std::size_t i = 0; i < p.ids.size(); ++i) {
    tokens.push_back(p.ids[i]);
    add_answers(sampling, misreading, tokens, probability * p.probabilities[i], distribution);
    tokens.pop_back();
  }
}

// [kDistributionCells] probabilities of the answers to kDistributionPrompt, from the definitions alone.
inline std::vector<double> answer_distribution(const SamplingParams& sampling,
                                               Misreading misreading = Misreading::kNone) {
  std::vector<double> distribution(kDistributionCells);
  std::vector<std::int32_t> tokens = kDistributionPrompt;
  add_answers(sampling, misreading, tokens, 1, distribution);
  return distribution;
}

inline std::unique_ptr<Proposer> distribution_proposer(ToyProposer::Options options = {.likeness = 0.6}) {
  return std::make_unique<ToyProposer>(distribution_language(), options);
}

struct CountedRequests {
  std::size_t n = 20000;
  std::shared_ptr<PastAnswers> past_answers = nullptr;
  std::shared_ptr<LiveDraft> live_draft = empty_live_draft();
  std::int32_t tree_width = 1;
  TreeLimits tree = {};  // of each request
  std::int32_t prefill_chunk = EngineOptions{}.prefill_chunk;
  std::optional<PolicyKind> policy = {};  // empty: each step drafts two tokens
  bool stop_early = false;                // with a policy
  std::int32_t max_running = 16;          // with more than one there is a prompt in most steps, which measures no time
  // By it a pass of the target takes 1 ms, and `row_us` for each row with logits.
  TestClock* clock = nullptr;
  std::int64_t row_us = 0;
};

// [kDistributionCells] counts of the engine's answers without a seed, drafting at most two tokens deep.
inline std::vector<std::int64_t> count_answers(const SamplingParams& sampling, std::unique_ptr<Proposer> proposer,
                                               const CountedRequests& requests = {}) {
  const std::size_t n_answers = requests.n;
  EngineOptions options;
  options.k = 2;
  options.tree_width = requests.tree_width;
  options.prefill_chunk = requests.prefill_chunk;
  options.adaptive_k = requests.policy.has_value();
  options.policy = requests.policy.value_or(options.policy);
  options.stop_early = requests.stop_early;
  options.max_running = requests.max_running;
  options.max_waiting = static_cast<std::int32_t>(n_answers);
  options.seed = 20260101;
  auto worker = std::make_unique<ToyWorker>(distribution_language());
  if (requests.clock != nullptr) {
    worker->on_run = [&](int /*n_run*/) { requests.clock->advance(1'000); };
    worker->spoil = [&](const StepInput& /*input*/, std::span<float> /*logits*/) {
      requests.clock->advance(requests.row_us);
    };
  }
  Engine engine(options, std::move(worker), nullptr, std::move(proposer), nullptr, {});
  std::vector<Answer> answers(n_answers);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = full_request(i + 1, kDistributionPrompt, answers[i]);
    request.sampling = sampling;
    request.max_tokens = kDistributionTokens;
    request.end_ids = kDistributionEnds;
    request.top_logprobs = -1;
    request.checksum = false;
    request.draft = requests.live_draft;
    request.past_answers = requests.past_answers;
    request.tree = requests.tree;
    engine.submit(std::move(request));
  }
  constexpr int kMostSteps = kDistributionTokens + 1;  // of an answer, its prompt included
  EXPECT_TRUE(drain(engine, kMostSteps * static_cast<int>(n_answers) + 1));
  std::vector<std::int64_t> counts(kDistributionCells);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.summary.rule, AcceptanceRule::kRejection);
    ++counts[distribution_cell(answer.tokens)];
  }
  return counts;
}

}  // namespace slip::testing
