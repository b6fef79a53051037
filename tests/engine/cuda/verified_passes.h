// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of verification on a device: passes of several different requests, with proposals of every draw
// method in chains and trees, verified on the device and by the host's verifier on the same logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "engine/cuda/device_verifier.h"
#include "engine/speculative/local_verifier.h"
#include "engine/speculative/token_path.h"
#include "tests/engine/sampling_parameters.h"
#include "tests/engine/tiny_draft.h"

namespace slip::testing {

inline constexpr std::int32_t kVerifiedVocab = 130;

struct VerifiedSequence {
  std::vector<std::int32_t> tokens;  // of which the last few are of an answer
  std::vector<std::int32_t> end_ids{2, 5};
  SamplingParams sampling;
  Proposal proposal;
  SequenceRef ref;
  std::unique_ptr<PageTable> pages;
};

class VerifiedPasses {
 public:
  explicit VerifiedPasses(std::shared_ptr<kernels::cuda::DeviceQueue> queue)
      : worker_(std::move(queue), *tiny_draft(tiny_draft_config(kVerifiedVocab), 3), 200, 150, 64),
        host_(worker_),
        device_(worker_) {}

  struct Counts {
    int results = 0, accepted = 0, refused = 0, rows = 0, different = 0;
  };
  // Proposals grow one pass per node, each node from the distribution after its parent; then both verify. `between` may
  // change what the device is asked.
  template <class Change>
  void run(unsigned seed, std::size_t n_sequences, std::int32_t n_nodes, const Change& between) {
    random_.seed(seed);
    start(n_sequences);
    for (std::int32_t node = 0; node < n_nodes; ++node) {
      host_.score(tasks());
      for (std::size_t i = 0; i < n_sequences; ++i) grow(i);
    }
    host_.score(tasks());
    std::vector<VerifyResult> expected(n_sequences);
    std::vector<std::vector<TopK>> seen(n_sequences);
    for (std::size_t i = 0; i < n_sequences; ++i) {
      host_.verify(i, expected[i]);
      for (std::int32_t row = 0; row <= n_nodes; ++row) seen[i].push_back(host_.observed(i, row));
    }
    for (auto& sequence : sequences_) between(sequence);
    device_.score(tasks());
    for (std::size_t i = 0; i < n_sequences; ++i) {
      compare(i, expected[i]);
      for (std::int32_t row = 0; row <= n_nodes; ++row) {
        compare(seen[i][static_cast<std::size_t>(row)], device_.observed(i, row));
      }
    }
  }
  void run(unsigned seed, std::size_t n_sequences, std::int32_t n_nodes) {
    run(seed, n_sequences, n_nodes, [](VerifiedSequence&) {});
  }
  const Counts& counts() const { return counts_; }

 private:
  void start(std::size_t n) {
    static const auto kinds = alone_and_in_pairs();
    sequences_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      VerifiedSequence& sequence = sequences_.emplace_back();
      const std::int32_t prompt = 2 + below(4), answer = below(4);
      for (std::int32_t j = 0; j < prompt + answer; ++j) sequence.tokens.push_back(below(kVerifiedVocab));
      sequence.sampling = kinds[static_cast<std::size_t>(below(static_cast<std::int32_t>(kinds.size())))].sampling;
      if (below(6) == 0) sequence.sampling.temperature = 0;
      if (below(8) == 0) sequence.sampling = {};
      sequence.sampling.seed = random_();
      sequence.pages = std::make_unique<PageTable>(worker_.cache());
      EXPECT_TRUE(sequence.pages->reserve(40));
      SequenceRef& ref = sequence.ref;
      ref.prompt_tokens = prompt;
      ref.rule = below(2) == 0 ? AcceptanceRule::kCoupled : AcceptanceRule::kRejection;
      ref.choice = static_cast<std::uint32_t>(below(3));
      ref.verified_on_device = true;
      const bool guesses = sequence.sampling.temperature == 0 || below(4) == 0;
      sequence.proposal.draw_method = guesses                                ? DrawMethod::kDeterministic
                                      : ref.rule == AcceptanceRule::kCoupled ? DrawMethod::kGumbel
                                                                             : DrawMethod::kSampled;
    }
    for (VerifiedSequence& sequence : sequences_) {  // they no longer move
      sequence.ref.tokens = sequence.tokens;
      sequence.ref.end_ids = sequence.end_ids;
      sequence.ref.sampling = &sequence.sampling;
    }
  }
  std::span<const ScoreTask> tasks() {
    tasks_.clear();
    for (const VerifiedSequence& sequence : sequences_) {
      ScoreTask task;
      task.tokens = sequence.tokens;
      task.pages = sequence.pages.get();
      task.proposal = &sequence.proposal;
      task.sequence = &sequence.ref;
      task.top_k = 7;
      tasks_.push_back(task);
    }
    return tasks_;
  }

  // Adds a node, mostly below the last one, from a distribution that is somewhat like the target's.
  void grow(std::size_t i) {
    VerifiedSequence& sequence = sequences_[i];
    Proposal& proposal = sequence.proposal;
    const auto n = static_cast<std::int32_t>(proposal.size());
    const std::int32_t parent = below(3) == 0 ? below(n + 1) - 1 : n - 1;
    std::vector<std::int32_t> path;
    write_token_path(sequence.tokens, proposal, parent, path);
    Distribution q;
    transform_logits(host_.logits(i, parent + 1), sequence.sampling, sequence.ref.row_context(path), q);
    double total = 0;
    for (double& probability : q.probabilities) {
      probability *= std::exp(std::normal_distribution<double>(0, 0.4)(random_));
      total += probability;
    }
    for (double& probability : q.probabilities) probability /= total;
    RandomAddress address = sequence.ref.next_address();
    address.output_index += static_cast<std::uint32_t>(path.size() - sequence.tokens.size());
    proposal.parents.push_back(parent);
    proposal.path_logprob.push_back(0);
    proposal.tokens.push_back(proposal.draw_method == DrawMethod::kSampled
                                  ? sample_inverse_cdf(q, std::uniform_real_distribution<double>(0, 1)(random_))
                                  : sample_gumbel(q, address));
    if (proposal.draw_method == DrawMethod::kSampled) proposal.add_q(q);
  }

  void compare(std::size_t i, const VerifyResult& expected) {
    VerifyResult result;
    device_.verify(i, result);
    ++counts_.results;
    counts_.accepted += static_cast<int>(expected.accepted.size());
    counts_.refused += expected.rejected_one ? 1 : 0;
    const bool same = result.accepted == expected.accepted && result.added_token == expected.added_token &&
                      result.rejected_one == expected.rejected_one;
    counts_.different += same ? 0 : 1;
  }
  void compare(const TopK& expected, const TopK& seen) {
    ++counts_.rows;
    EXPECT_EQ(seen.ids, expected.ids);
    for (std::size_t j = 0; j < expected.logprobs.size(); ++j) {
      ASSERT_NEAR(seen.logprobs[j], expected.logprobs[j], 1e-6);
    }
    EXPECT_NEAR(seen.log_tail, expected.log_tail, 1e-5);
  }
  std::int32_t below(std::int32_t n) { return std::uniform_int_distribution<std::int32_t>(0, n - 1)(random_); }

  DeviceWorker worker_;
  LocalVerifier host_;
  DeviceVerifier device_;
  std::mt19937 random_;
  std::vector<VerifiedSequence> sequences_;
  std::vector<ScoreTask> tasks_;
  Counts counts_;
};

}  // namespace slip::testing
