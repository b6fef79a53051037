// SPDX-License-Identifier: Apache-2.0
// For tests of DeviceDraft's loop: requests with every draw rule, a draft with its cache, and the reference, which
// draws the same tokens one by one with passes of a worker and the CPU's sampling.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "engine/cuda/device_draft.h"
#include "tests/engine/models/plain_decode.h"

namespace slip::testing {

using kernels::cuda::DrawRule;

inline constexpr std::int32_t kDraftVocab = 200;

// One sequence, and what is drafted for it.
struct Asked {
  std::vector<std::int32_t> prompt;  // all committed tokens
  std::int32_t depth;                // tokens to draw
  SamplingParams sampling;
  bool coupled;  // at a temperature above 0: kCoupled, else kInverseCdf

  RandomAddress address(std::int32_t depth_of_token) const {
    return {*sampling.seed, 3, 10 + static_cast<std::uint32_t>(depth_of_token)};
  }
  // The sequence as the engine shows it to a proposer before the first token is drawn. Valid while this object is.
  SequenceRef view() const {
    SequenceRef ref;
    ref.tokens = prompt;
    ref.prompt_tokens = static_cast<std::int32_t>(prompt.size()) / 2;  // so the second half is the answer so far
    ref.sampling = &sampling;
    ref.end_ids = kEnds;
    return ref;
  }
  static constexpr std::int32_t kEnds[] = {2, 5};
  DrawRule rule() const {
    return sampling.temperature == 0 ? DrawRule::kBest : coupled ? DrawRule::kCoupled : DrawRule::kInverseCdf;
  }
};

// `n` tokens: step, 2 step, 3 step, … modulo the vocabulary.
inline std::vector<std::int32_t> prompt_of(std::int32_t n, std::int32_t step) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < n; ++i) prompt.push_back((i * step + step) % kDraftVocab);
  return prompt;
}

// Requests with every draw rule, every transform and logits processors, in descending order of depth, as
// DeviceDraft::draw() requires.
inline std::vector<Asked> different_ones() {
  return {{prompt_of(1, 3), 5, {.temperature = 0, .seed = 1}, true},
          {prompt_of(4, 5), 5, {.temperature = 1, .seed = 2}, true},
          {prompt_of(6, 3),
           5,
           {.temperature = 0.8F,
            .repetition_penalty = 1.4F,
            .presence_penalty = 0.7F,
            .logit_bias = {{9, 3.0F}, {2, 8.0F}},
            .min_tokens = 6,
            .seed = 6},
           false},
          {prompt_of(2, 7), 4, {.temperature = 0.7F, .top_p = 0.9F, .seed = 3}, false},
          {prompt_of(8, 11), 3, {.temperature = 1.3F, .top_k = 20, .seed = 4}, true},
          {prompt_of(3, 13), 1, {.temperature = 0.9F, .min_p = 0.02F, .seed = 5}, false}};
}

// The tokens drawn for one sequence, with their log probabilities and the distributions they were drawn from: [depth].
struct Drawn {
  std::vector<std::int32_t> tokens;
  std::vector<double> logprobs;
  std::vector<Distribution> distributions;
};

// The reference: draws `asked` token by token, each with a pass of `worker` and the CPU's transform and sampling.
// REQUIRES: `worker` has the draft's weights.
inline Drawn one_by_one(Worker& worker, const Asked& asked) {
  Drawn drawn;
  PlainSequence sequence(worker);
  sequence.feed(asked.prompt, 64);
  for (std::int32_t depth = 0; depth < asked.depth; ++depth) {
    if (depth > 0) sequence.feed(std::span(drawn.tokens).last(1), 1);
    Distribution distribution;
    SamplingParams sampling = asked.sampling;
    if (asked.rule() == DrawRule::kBest) sampling.temperature = 1;
    std::vector<std::int32_t> path = asked.prompt;
    path.insert(path.end(), drawn.tokens.begin(), drawn.tokens.end());
    transform_logits(sequence.logits(), sampling, asked.view().row_context(path), distribution);
    const std::int32_t token =
        asked.rule() == DrawRule::kBest ? static_cast<std::int32_t>(kernels::argmax(sequence.logits()))
        : asked.rule() == DrawRule::kCoupled
            ? sample_gumbel(distribution, asked.address(depth))
            : sample_inverse_cdf(distribution, uniform(asked.address(depth), RandomPurpose::kDraft));
    drawn.tokens.push_back(token);
    drawn.logprobs.push_back(std::log(distribution.probability(token)));
    drawn.distributions.push_back(distribution);
  }
  return drawn;
}

// A DeviceDraft with three weight slots on the queue `on`. Each draw() begins with empty caches.
template <class Queue>
class Loop {
 public:
  Loop(std::shared_ptr<Queue> on, const ModelWeights& shape, std::int32_t max_chains = 6)
      : queue(std::move(on)),
        draft(queue, shape, {.n_pages = 80, .max_chains = max_chains, .max_depth = 6, .max_rows_read = 48}) {
    while (draft.add_slot() < 2) continue;
  }

  void load(const ModelWeights& weights, int weight_slot) {
    images_.push_back(std::make_unique<DeviceImage>(queue, weights));
    draft.load(*images_.back(), weight_slot);
  }
  // Draws for all of `asked`: with one weight slot, or sequence i with weight_slots[i].
  void draw(int weight_slot, const std::vector<Asked>& asked) {
    draw(std::vector<int>(asked.size(), weight_slot), asked);
  }
  void draw(const std::vector<int>& weight_slots, const std::vector<Asked>& asked) {
    chains_.clear();
    pages_.clear();
    refs_.clear();
    refs_.reserve(asked.size());
    for (const Asked& one : asked) {
      pages_.push_back(std::make_unique<PageTable>(draft.cache()));
      const auto n = static_cast<std::int32_t>(one.prompt.size());
      EXPECT_TRUE(pages_.back()->reserve(n + one.depth));
      DeviceDraftChain chain;
      chain.weight_slot = weight_slots[chains_.size()];
      chain.pages = pages_.back().get();
      chain.tokens = one.prompt;
      chain.depth = one.depth;
      chain.rule = one.rule();
      const bool best = chain.rule == DrawRule::kBest;
      chain.transform = {best ? 1.0 : one.sampling.temperature, one.sampling.min_p, one.sampling.top_p,
                         one.sampling.top_k};
      chain.first = one.address(0);
      if (one.sampling.processes_logits()) chain.processors = &refs_.emplace_back(one.view());
      chains_.push_back(chain);
    }
    draft.draw(chains_);
  }
  const std::shared_ptr<Queue> queue;
  DeviceDraft draft;

 private:
  std::vector<std::unique_ptr<DeviceImage>> images_;  // kept, since the queue copies them later
  std::vector<std::unique_ptr<PageTable>> pages_;
  std::vector<SequenceRef> refs_;
  std::vector<DeviceDraftChain> chains_;
};

// The first `depth` tokens of a chain of the last draw().
inline std::vector<std::int32_t> tokens_of(const DeviceDraft& draft, std::size_t chain, std::int32_t depth) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t d = 0; d < depth; ++d) tokens.push_back(draft.token(chain, d));
  return tokens;
}

}  // namespace slip::testing
