// SPDX-License-Identifier: Apache-2.0
// Rejection sampling: without a seed an answer's distribution must not change, whatever is proposed.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include "engine/scheduler/select.h"
#include "engine/speculative/draft_model_proposer.h"
#include "tests/common/test_clock.h"
#include "tests/engine/answer_distribution.h"
#include "tests/engine/goodness_of_fit.h"
#include "tests/engine/tiny_draft.h"
#include "tests/engine/wrapped_proposer.h"

namespace slip {
namespace {

TEST(EngineRejection, AnswersFollowTheTargetsDistributionWhateverTheDraft) {
  const SamplingParams sampling{.temperature = 0.9F};
  const auto distribution = testing::answer_distribution(sampling);
  for (const double likeness : {1.0, 0.6, 0.0}) {
    for (const std::int32_t width : {1, 2}) {
      const auto counts =
          testing::count_answers(sampling, testing::distribution_proposer({.likeness = likeness, .width = width}));
      EXPECT_GT(testing::chi_square_p_value(counts, distribution), testing::kSignificance)
          << "likeness " << likeness << " width " << width;
    }
  }
}

// Draws from one distribution and reports another as q: the answers' distribution must change.
class LyingProposer final : public testing::WrappedProposer {
 public:
  using WrappedProposer::WrappedProposer;
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    const std::int32_t n_passes = WrappedProposer::propose(tasks);
    for (const DraftTask& task : tasks) {
      for (Distribution& q : task.proposal->q)
        std::fill(q.probabilities.begin(), q.probabilities.end(), 1.0 / testing::kDistributionVocab);
    }
    return n_passes;
  }
};

// A draft model with siblings and a rule that ends its chains, or with a planted fault.
enum class Fault {
  kNone,
  kSiblingsAgainstAllOfQ,
  kDropsUnlikelyTokens,
  kDropsUnlikelyChildren,
  kDropsSiblingsForALaterToken,  // no fault: these were not drawn with it
};

// A draft model. Counts the accepted tokens that follow siblings.
class CountingProposer : public testing::WrappedProposer {
 public:
  explicit CountingProposer(kernels::ThreadPool& pool, std::int64_t* n_behind_siblings = nullptr)
      : WrappedProposer(std::make_unique<DraftModelProposer>(DraftModelOptions{.n_pages = 64, .max_running = 16},
                                                             testing::toy_config(testing::kDistributionVocab), pool)),
        n_behind_siblings_(n_behind_siblings) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    for (const DraftTask& task : tasks) proposals_[task.sequence->id.value] = task.proposal;
    return WrappedProposer::propose(tasks);
  }
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override {
    const bool behind_sibling = result.accepted.size() > 1 && result.accepted[0] > 0 &&
                                result.accepted[0] >= proposals_.at(sequence.id.value)->chain_length();
    if (behind_sibling && n_behind_siblings_ != nullptr) ++*n_behind_siblings_;
    WrappedProposer::on_verified(sequence, result);
  }

 private:
  std::int64_t* n_behind_siblings_;
  std::map<std::uint64_t, const Proposal*> proposals_;  // of the step
};

class FaultyProposer final : public CountingProposer {
 public:
  FaultyProposer(kernels::ThreadPool& pool, Fault fault, const ChoiceRates& rates = {},
                 std::int64_t* n_behind_siblings = nullptr)
      : CountingProposer(pool, n_behind_siblings), fault_(fault), rates_(rates) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    std::vector<DraftTask> stopped(tasks.begin(), tasks.end());
    const double row_price = rates_.is_by_rank() ? 0 : 0.3;
    for (DraftTask& task : stopped) task.stop = {&rates_, /*next_rate=*/1, row_price, /*pass_price=*/0};
    const std::int32_t n_passes = CountingProposer::propose(stopped);
    for (const DraftTask& task : tasks) spoil(*task.proposal);
    return n_passes;
  }

 private:
  void spoil(Proposal& proposal) const {
    if (fault_ == Fault::kSiblingsAgainstAllOfQ) {
      for (std::size_t node = 0; node < proposal.size(); ++node) {
        proposal.q[node] = proposal.q[proposal.first_below(proposal.parents[node])];
      }
    }
    if (fault_ == Fault::kDropsUnlikelyTokens && proposal.size() > 0 && proposal.log_q(0) < std::log(0.3)) {
      proposal.clear();
      proposal.draw_method = DrawMethod::kSampled;
    }
    if (fault_ == Fault::kDropsUnlikelyChildren) {
      const std::int32_t n_chain = proposal.chain_length();
      std::vector<std::int32_t> kept;
      for (std::int32_t node = 0; node < std::ssize(proposal.tokens); ++node) {
        const auto first = proposal.first_below(proposal.parents[static_cast<std::size_t>(node)]);
        const bool dropped = std::cmp_greater_equal(first, n_chain) && proposal.log_q(first) < std::log(0.3);
        if (!dropped) kept.push_back(node);
      }
      keep_nodes(proposal, kept);
    }
    if (fault_ == Fault::kDropsSiblingsForALaterToken && proposal.chain_length() > 1 && proposal.tokens[1] < 2) {
      keep_nodes(proposal, std::vector<std::int32_t>{0, 1});
    }
  }
  Fault fault_;
  ChoiceRates rates_;
};

double p_value_of(const SamplingParams& sampling, Fault fault, std::size_t n_answers = 20000,
                  const TreeLimits& tree = {}) {
  kernels::ThreadPool pool(1);
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  const auto counts = testing::count_answers(
      sampling, std::make_unique<FaultyProposer>(pool, fault),
      {.n = n_answers, .live_draft = testing::make_live_draft(draft), .tree_width = 3, .tree = tree});
  return testing::chi_square_p_value(counts, testing::answer_distribution(sampling));
}

TEST(EngineRejection, SiblingsAndEarlyStopsKeepTheDistribution) {
  for (const SamplingParams& sampling : {SamplingParams{.temperature = 0.9F}, SamplingParams{.top_k = 2},
                                         SamplingParams{.temperature = 1.4F, .presence_penalty = 0.5F}}) {
    EXPECT_GT(p_value_of(sampling, Fault::kNone), testing::kSignificance);
  }
}

// A cut that looked at a sampled token's own probability would bias the answers.
TEST(EngineRejection, TreesThatTheRequestLimitsKeepTheDistribution) {
  for (const TreeLimits& tree : {TreeLimits{.nodes = 2, .depth = 1}, TreeLimits{.nodes = 3},
                                 TreeLimits{.nodes = 3, .width = 2}, TreeLimits{.depth = 1, .width = 3}}) {
    EXPECT_GT(p_value_of({.temperature = 0.9F}, Fault::kNone, 20000, tree), testing::kSignificance)
        << tree.nodes << " nodes, depth " << tree.depth << ", width " << tree.width;
  }
}

// Trees of a shape that no token changes: what follows siblings is proposed too, at two levels. The last token of the
// prompt is read in a step of its own, which so proposes a tree.
struct SampledTrees {
  double p_value = 0;
  std::int64_t n_behind_siblings = 0;  // accepted
};
SampledTrees sampled_trees(const SamplingParams& sampling, Fault fault, std::size_t n_answers = 20000) {
  kernels::ThreadPool pool(1);
  SampledTrees found;
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  auto proposer = std::make_unique<FaultyProposer>(pool, fault, ChoiceRates(RankRates{0.5, 0.5, 0.4, 0.3}),
                                                   &found.n_behind_siblings);
  const auto counts = testing::count_answers(
      sampling, std::move(proposer),
      {.n = n_answers, .live_draft = testing::make_live_draft(draft), .tree_width = 3, .prefill_chunk = 1});
  found.p_value = testing::chi_square_p_value(counts, testing::answer_distribution(sampling));
  return found;
}

TEST(EngineRejection, WhatFollowsSampledSiblingsKeepsTheDistribution) {
  for (const SamplingParams& sampling : {SamplingParams{.temperature = 0.9F}, SamplingParams{.top_k = 2},
                                         SamplingParams{.temperature = 1.4F, .presence_penalty = 0.5F}}) {
    const SampledTrees trees = sampled_trees(sampling, Fault::kNone);
    EXPECT_GT(trees.p_value, testing::kSignificance);
    EXPECT_GT(trees.n_behind_siblings, 1000);
  }
}

// Regression: the next step drew by the random number of the token for which the siblings were dropped.
TEST(EngineRejection, SiblingsMayBeDroppedForALaterToken) {
  EXPECT_GT(sampled_trees({.temperature = 2}, Fault::kDropsSiblingsForALaterToken, 90000).p_value,
            testing::kSignificance);
}

// Its passes take 10 µs by the test's clock.
class TimedProposer final : public CountingProposer {
 public:
  TimedProposer(kernels::ThreadPool& pool, testing::TestClock& clock, std::int64_t* n_behind_siblings)
      : CountingProposer(pool, n_behind_siblings), clock_(clock) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    const std::int32_t n_passes = CountingProposer::propose(tasks);
    clock_.advance(std::int64_t{10} * n_passes);
    return n_passes;
  }

 private:
  testing::TestClock& clock_;
};

// The shape depends on the rates so far and on a row's time: 12 nodes, 6, then 4 or 2.
TEST(EngineRejection, StaticTreesKeepTheDistribution) {
  for (const std::int64_t row_us : {10, 50, 120}) {
    testing::TestClock clock(1'000'000);
    kernels::ThreadPool pool(1);
    const SamplingParams sampling{.temperature = 0.9F};
    const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
    std::int64_t n_behind_siblings = 0;
    const auto counts =
        testing::count_answers(sampling, std::make_unique<TimedProposer>(pool, clock, &n_behind_siblings),
                               {.live_draft = testing::make_live_draft(draft),
                                .tree_width = 3,
                                .prefill_chunk = 1,
                                .policy = PolicyKind::kStaticTree,
                                .max_running = 1,
                                .clock = &clock,
                                .row_us = row_us});
    EXPECT_GT(testing::chi_square_p_value(counts, testing::answer_distribution(sampling)), testing::kSignificance)
        << row_us;
    if (row_us <= 50) {
      EXPECT_GT(n_behind_siblings, 1000) << row_us;
    }
  }
}

// A request that sets nothing, in a service that sets nothing, one at a time: temperature 1, a draft model, the default
// policy, which ends drafts early and proposes second choices.
double p_value_of_defaults(std::unique_ptr<Proposer> proposer, testing::TestClock& clock) {
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  const auto counts = testing::count_answers({}, std::move(proposer),
                                             {.n = 100'000,
                                              .live_draft = testing::make_live_draft(draft),
                                              .tree_width = 2,
                                              .policy = EngineOptions{}.policy,
                                              .stop_early = true,
                                              .max_running = 1,
                                              .clock = &clock,
                                              .row_us = 10});
  return testing::chi_square_p_value(counts, testing::answer_distribution({}));
}

TEST(EngineRejection, ADefaultRequestKeepsTheDistribution) {
  testing::TestClock clock(1'000'000);
  kernels::ThreadPool pool(1);
  EXPECT_GT(p_value_of_defaults(std::make_unique<TimedProposer>(pool, clock, nullptr), clock), testing::kSignificance);
}

TEST(EngineRejectionNegative, ATokenOfADefaultRequestDroppedForItsOwnProbabilityIsNoticed) {
  testing::TestClock clock(1'000'000);
  kernels::ThreadPool pool(1);
  EXPECT_LT(p_value_of_defaults(std::make_unique<FaultyProposer>(pool, Fault::kDropsUnlikelyTokens), clock),
            testing::kSignificance);
}

TEST(EngineRejectionNegative, ChildrenVerifiedAgainstAllOfQAreNoticed) {
  EXPECT_LT(sampled_trees({.temperature = 0.9F}, Fault::kSiblingsAgainstAllOfQ, 60000).p_value, testing::kSignificance);
}

TEST(EngineRejectionNegative, AChildDroppedForItsOwnProbabilityIsNoticed) {
  EXPECT_LT(sampled_trees({.temperature = 0.9F}, Fault::kDropsUnlikelyChildren, 90000).p_value, testing::kSignificance);
}

TEST(EngineRejectionNegative, SiblingsVerifiedAgainstAllOfQAreNoticed) {
  EXPECT_LT(p_value_of({.temperature = 0.9F}, Fault::kSiblingsAgainstAllOfQ, 60000), testing::kSignificance);
}

TEST(EngineRejectionNegative, ATokenDroppedForItsOwnProbabilityIsNoticed) {
  EXPECT_LT(p_value_of({.temperature = 0.9F}, Fault::kDropsUnlikelyTokens, 60000), testing::kSignificance);
}

TEST(EngineRejectionNegative, AProposerThatMisstatesItsDrawMethodIsNoticed) {
  const SamplingParams sampling{.temperature = 0.9F};
  const auto counts =
      testing::count_answers(sampling, std::make_unique<LyingProposer>(testing::distribution_proposer()));
  EXPECT_LT(testing::chi_square_p_value(counts, testing::answer_distribution(sampling)), testing::kSignificance);
}

}  // namespace
}  // namespace slip
