// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/local_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "engine/speculative/acceptance.h"
#include "engine/speculative/observe.h"
#include "engine/speculative/proposer.h"
#include "engine/speculative/token_path.h"
#include "tests/engine/speculative/accept_given.h"
#include "tests/engine/toy_target.h"

namespace slip {
namespace {

using testing::ToyLanguage;
using testing::ToyWorker;

Proposal proposal_of(std::vector<std::int32_t> tokens, std::vector<std::int32_t> parents) {
  Proposal proposal;
  proposal.tokens = std::move(tokens);
  proposal.parents = std::move(parents);
  return proposal;
}

std::vector<float> row_of(const Verifier& verifier, std::size_t task, std::int32_t row) {
  const auto logits = verifier.logits(task, row);
  return {logits.begin(), logits.end()};
}

// Two prompts, one of them unfinished, a chain and a tree in one pass: each row depends on its own path alone.
TEST(LocalVerifier, EveryRowSeesItsOwnPathAndNothingElse) {
  const ToyLanguage language;
  ToyWorker worker(language);
  LocalVerifier verifier(worker);
  const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5};
  const Proposal chain = proposal_of({7, 8, 9}, {-1, 0, 1});
  //      root
  //     0    1
  //    2 3    4
  const Proposal tree = proposal_of({7, 8, 9, 10, 11}, {-1, -1, 0, 0, 1});
  std::vector<PageTable> pages;
  std::vector<ScoreTask> tasks;
  for (const Proposal* proposal : {static_cast<const Proposal*>(nullptr), &chain, &tree}) {
    pages.emplace_back(worker.cache());
    ASSERT_TRUE(pages.back().reserve(40));
    tasks.push_back({{prompt}, proposal, /*wants_logits=*/proposal != nullptr});
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].pages = &pages[i];
  verifier.score(tasks);
  for (const std::size_t task : {1, 2}) {
    const Proposal& proposal = *tasks[task].proposal;
    for (std::int32_t node = -1; node < static_cast<std::int32_t>(proposal.size()); ++node) {
      std::vector<std::int32_t> path;
      write_token_path(prompt, proposal, node, path);
      EXPECT_EQ(row_of(verifier, task, node + 1), language.logits(path)) << "task " << task << " node " << node;
    }
  }
  // Accept 1 → 4 of the tree: their keys move next to the prompt's, and what follows reads the path in order.
  verifier.keep_path(tasks[2], std::vector<std::int32_t>{1, 4});
  const std::vector<std::int32_t> added{12};
  const ScoreTask next{{added, &pages[2], /*n_cached=*/7}};
  verifier.score({&next, 1});
  EXPECT_EQ(row_of(verifier, 0, 0), language.logits(std::vector<std::int32_t>{1, 2, 3, 4, 5, 8, 11, 12}));
}

TEST(LocalVerifier, EveryRowOfAPromptHasLogitsWhenTheyAreWanted) {
  const ToyLanguage language;
  ToyWorker worker(language);
  LocalVerifier verifier(worker);
  const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5};
  const Proposal chain = proposal_of({7, 8}, {-1, 0});
  std::vector<PageTable> pages;
  std::vector<ScoreTask> tasks(4, ScoreTask{{prompt}});
  tasks[1].wants_logits = false;
  tasks[2].proposal = &chain;
  tasks[1].wants_all_logits = tasks[2].wants_all_logits = true;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    pages.emplace_back(worker.cache());
    ASSERT_TRUE(pages.back().reserve(40));
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].pages = &pages[i];
  verifier.score(tasks);
  const auto after = [&](std::size_t n) { return language.logits(std::span(prompt).first(n)); };
  for (const std::size_t task : {1, 2}) {
    for (std::int32_t row = -4; row <= 0; ++row) {
      EXPECT_EQ(row_of(verifier, task, row), after(static_cast<std::size_t>(5 + row))) << task << " " << row;
    }
  }
  EXPECT_EQ(row_of(verifier, 2, 2), language.logits(std::vector<std::int32_t>{1, 2, 3, 4, 5, 7, 8}));
  EXPECT_EQ(row_of(verifier, 0, 0), after(5));
  EXPECT_EQ(row_of(verifier, 3, 0), after(5));
}

TEST(LocalVerifier, VerifiesByTheRequestsDistributionAndObservesRawRows) {
  const ToyLanguage language;
  ToyWorker worker(language);
  LocalVerifier verifier(worker);
  EXPECT_FALSE(verifier.verifies_on_device({}));
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const SamplingParams sampling{.temperature = 0.7F, .frequency_penalty = 1, .seed = 3};
  PageTable pages(worker.cache());
  ASSERT_TRUE(pages.reserve(10));
  int n_accepted = 0;
  for (std::int32_t guess = 0; guess < language.vocab_size; ++guess) {
    const Proposal proposal = proposal_of({guess, 2}, {-1, 0});
    SequenceRef ref;
    ref.tokens = tokens;
    ref.prompt_tokens = 1;
    ref.sampling = &sampling;
    ref.rule = AcceptanceRule::kCoupled;
    ScoreTask task{{tokens, &pages}, &proposal};
    task.sequence = &ref;
    task.top_k = 4;
    verifier.score({&task, 1});
    std::vector<Distribution> distributions(3);
    for (std::int32_t row = 0; row < 3; ++row) {
      std::vector<std::int32_t> path;
      write_token_path(tokens, proposal, row - 1, path);
      const auto logits = language.logits(path);
      transform_logits(logits, sampling, ref.row_context(path), distributions[static_cast<std::size_t>(row)]);
      EXPECT_EQ(verifier.observed(0, row).logprobs, observe_row(logits, 4).logprobs);
    }
    const VerifyResult expected = testing::accept_given(proposal, distributions, ref.rule, {3, 0, 2});
    VerifyResult result;
    verifier.verify(0, result);
    EXPECT_EQ(result.accepted, expected.accepted);
    EXPECT_EQ(result.added_token, expected.added_token);
    n_accepted += static_cast<int>(result.accepted.size());
  }
  EXPECT_GE(n_accepted, 1);
}

// Five sequences with chains of which some tokens are accepted, each with its own parameters; some are observed.
class TogetherTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSequences = 5;

  TogetherTest() {
    for (std::size_t i = 0; i < kSequences; ++i) {
      auto& tokens = tokens_[i];
      tokens = {1, static_cast<std::int32_t>(i), 3};
      std::vector<std::int32_t> path = tokens, chain;
      for (std::size_t depth = 0; depth < 4; ++depth) {
        const auto logits = language_.logits(path);
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        chain.push_back(depth < i ? static_cast<std::int32_t>(best) : 7);
        path.push_back(chain.back());
      }
      proposals_[i] = proposal_of(chain, {-1, 0, 1, 2});
      sampling_[i] = {.temperature = i < 3 ? 0.0F : 0.7F, .frequency_penalty = i == 4 ? 1.0F : 0.0F, .seed = 3};
      refs_[i].tokens = tokens;
      refs_[i].prompt_tokens = 1;
      refs_[i].sampling = &sampling_[i];
      refs_[i].rule = AcceptanceRule::kCoupled;
    }
  }

  std::vector<ScoreTask> tasks() {
    std::vector<ScoreTask> tasks;
    pages_.clear();
    pages_.reserve(kSequences);
    for (std::size_t i = 0; i < kSequences; ++i) {
      pages_.emplace_back(worker_.cache());
      EXPECT_TRUE(pages_.back().reserve(10));
      ScoreTask& task = tasks.emplace_back();
      task.tokens = tokens_[i];
      task.pages = &pages_[i];
      task.proposal = &proposals_[i];
      task.sequence = &refs_[i];
      task.top_k = i % 2 == 0 ? 4 : 0;
    }
    return tasks;
  }

  const ToyLanguage language_{.vocab_size = 4096, .spread = 20};
  std::vector<std::int32_t> tokens_[kSequences];
  Proposal proposals_[kSequences];
  SamplingParams sampling_[kSequences];
  SequenceRef refs_[kSequences];
  ToyWorker worker_{language_};
  std::vector<PageTable> pages_;
  kernels::ThreadPool pool_{3};
};

TEST_F(TogetherTest, SequencesVerifiedOnThreadsGetWhatEachGetsAlone) {
  LocalVerifier alone(worker_), together(worker_, &pool_);
  const auto given = tasks();
  for (int step = 0; step < 2; ++step) {
    alone.score(given);
    together.score(given);
    for (std::size_t i = 0; i < kSequences; ++i) {
      VerifyResult expected, result;
      alone.verify(i, expected);
      together.verify(i, result);
      EXPECT_EQ(result.accepted, expected.accepted) << i;
      EXPECT_EQ(result.added_token, expected.added_token) << i;
      EXPECT_EQ(result.rejected_one, expected.rejected_one) << i;
      if (i < 3) {
        EXPECT_EQ(result.accepted.size(), i) << "greedy";
      }
      for (std::int32_t row = 0; row < 5 && given[i].top_k > 0; ++row) {
        for (int time = 0; time < 2; ++time) {
          const TopK seen = together.observed(i, row), right = alone.observed(i, row);
          EXPECT_EQ(seen.ids, right.ids) << i << " " << row;
          EXPECT_EQ(seen.logprobs, right.logprobs);
          EXPECT_EQ(seen.log_tail, right.log_tail);
        }
      }
    }
  }
}

// A worker whose pass gives NaN for one logit.
class BreaksALogit final : public Worker {
 public:
  explicit BreaksALogit(Worker& worker) : worker_(worker) {}
  void run(const StepInput& input, StepOutput& output) override {
    worker_.run(input, output);
    if (row >= 0) output.logits.row<float>(row)[5] = NAN;
  }
  const ModelConfig& config() const override { return worker_.config(); }
  PagePool& cache() override { return worker_.cache(); }
  std::int32_t max_rows() const override { return worker_.max_rows(); }
  std::int32_t max_logit_rows() const override { return worker_.max_logit_rows(); }

  std::int64_t row = -1;

 private:
  Worker& worker_;
};

TEST_F(TogetherTest, ABrokenLogitFailsItsOwnSequenceInItsOwnStep) {
  BreaksALogit worker(worker_);
  LocalVerifier verifier(worker, &pool_);
  const auto given = tasks();
  worker.row = 5;  // of sequence 1, which has rows 5 to 9
  verifier.score(given);
  VerifyResult result;
  for (std::size_t i = 0; i < kSequences; ++i) {
    if (i == 1) {
      EXPECT_THROW(verifier.verify(i, result), Error);
    } else {
      EXPECT_NO_THROW(verifier.verify(i, result)) << i;
    }
  }
  verifier.score(given);  // fails again, and nobody asks
  worker.row = -1;
  verifier.score(given);
  EXPECT_NO_THROW(verifier.verify(1, result));
}

TEST(LocalVerifierNegative, APathThatWasNotMovedIsNoticed) {
  const ToyLanguage language;
  ToyWorker worker(language);
  LocalVerifier verifier(worker);
  const std::vector<std::int32_t> prompt{1, 2, 3}, added{12};
  const Proposal tree = proposal_of({7, 8}, {-1, -1});
  PageTable pages(worker.cache());
  ASSERT_TRUE(pages.reserve(20));
  const ScoreTask task{{prompt, &pages}, &tree};
  verifier.score({&task, 1});
  const ScoreTask next{{added, &pages, /*n_cached=*/4}};
  verifier.score({&next, 1});  // node 1 was accepted, but node 0 lies where it belongs
  EXPECT_NE(row_of(verifier, 0, 0), language.logits(std::vector<std::int32_t>{1, 2, 3, 8, 12}));
}

}  // namespace
}  // namespace slip
