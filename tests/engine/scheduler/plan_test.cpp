// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace slip {
namespace {

SequenceLoad decoding(std::int32_t k = 5) {
  return {.n_tokens = 50, .n_pending = 1, .remaining = 100, .k_wanted = k, .ready_depth = 16};
}

SequenceLoad reading(std::int32_t n_pending) {
  return {.n_tokens = n_pending, .n_pending = n_pending, .remaining = 100, .k_wanted = 5, .ready_depth = 0};
}

SequenceLoad scoring(std::int32_t n_pending) {
  SequenceLoad load = reading(n_pending);
  load.score_prompt = true;
  return load;
}

const StepLimits kRoomy{.max_rows = 500, .max_logit_rows = 200, .prefill_chunk = 64, .max_positions = 1024};

std::vector<std::int32_t> rows_of(const Plan& plan) {
  std::vector<std::int32_t> rows;
  for (const PlannedSequence& planned : plan.sequences) rows.push_back(planned.n_rows);
  return rows;
}

std::vector<std::int32_t> ks_of(const Plan& plan) {
  std::vector<std::int32_t> ks;
  for (const PlannedSequence& planned : plan.sequences) ks.push_back(planned.k);
  return ks;
}

Plan planned(const std::vector<SequenceLoad>& loads, const StepLimits& limits) {
  Plan plan;
  plan_step(loads, limits, plan);
  return plan;
}

using Ints = std::vector<std::int32_t>;

TEST(Plan, DecodingSequencesGetARowAndTheirDraftLength) {
  const Plan plan = planned({decoding(5), decoding(0), decoding(2)}, kRoomy);
  EXPECT_EQ(rows_of(plan), (Ints{1, 1, 1}));
  EXPECT_EQ(ks_of(plan), (Ints{5, 0, 2}));
}

TEST(Plan, NeverDraftsWhatCouldNotBeCommitted) {
  SequenceLoad last = decoding(), nearly = decoding(), at_edge = decoding(), before_edge = decoding(),
               behind = decoding();
  last.remaining = 1;
  nearly.remaining = 3;
  at_edge.n_tokens = 1024;
  before_edge.n_tokens = 1022;
  behind.ready_depth = 1;
  EXPECT_EQ(ks_of(planned({last, nearly, at_edge, before_edge, behind}, kRoomy)), (Ints{0, 2, 0, 2, 1}));
}

TEST(Plan, PromptsShareTheChunkOldestFirst) {
  const Plan plan = planned({reading(40), decoding(), reading(40), reading(10)}, kRoomy);
  EXPECT_EQ(rows_of(plan), (Ints{40, 1, 24, 0}));
  EXPECT_EQ(ks_of(plan), (Ints{0, 5, 0, 0}));
}

TEST(Plan, ATightRowBudgetShortensAllChainsAlike) {
  StepLimits limits = kRoomy;
  limits.max_rows = 10;
  EXPECT_EQ(ks_of(planned({decoding(), decoding(), decoding()}, limits)), (Ints{3, 2, 2}));
  limits.max_rows = 500;
  limits.max_logit_rows = 5;
  EXPECT_EQ(ks_of(planned({decoding(), decoding(), decoding()}, limits)), (Ints{1, 1, 0}));
}

TEST(Plan, PromptsComeBeforeProposalsSoThatTheyNeverStarve) {
  StepLimits limits = kRoomy;
  limits.max_rows = 12;
  const Plan plan = planned({decoding(), decoding(), reading(100)}, limits);
  EXPECT_EQ(rows_of(plan), (Ints{1, 1, 10}));
  EXPECT_EQ(ks_of(plan), (Ints{0, 0, 0}));
}

// A scored prompt needs a logit row per token, and logit rows are scarce: other sequences get as many as without it.
TEST(Plan, AScoredPromptTakesTheLogitRowsThatOthersLeave) {
  StepLimits limits = kRoomy;
  limits.max_logit_rows = 30;
  const Plan plan = planned({scoring(100), decoding(5), reading(40), decoding(2)}, limits);
  EXPECT_EQ(rows_of(plan), (Ints{19, 1, 40, 1})) << "30 less 2 to decode, 7 to propose and 1 for each prompt's end";
  EXPECT_EQ(ks_of(plan), (Ints{0, 5, 0, 2}));
  EXPECT_EQ(rows_of(planned({scoring(100)}, limits)), (Ints{29}));
  EXPECT_EQ(rows_of(planned({reading(100)}, limits)), (Ints{64}));
  limits.max_logit_rows = 5;
  EXPECT_EQ(rows_of(planned({scoring(100), decoding(5), scoring(9)}, limits)), (Ints{1, 1, 1})) << "it never starves";
}

TEST(Plan, EveryPlanKeepsToItsLimitsAndMovesSomething) {
  // Every mixture of seven kinds of sequence over four places, under tight and roomy limits.
  const std::vector<SequenceLoad> kinds{decoding(5),  decoding(0), reading(7),  reading(300),
                                        decoding(16), scoring(7),  scoring(300)};
  for (const std::int32_t max_rows : {5, 9, 40, 500}) {
    for (const std::int32_t max_logit_rows : {5, 11, 200}) {
      for (std::int32_t mixture = 0; mixture < 7 * 7 * 7 * 7; ++mixture) {
        std::vector<SequenceLoad> loads;
        for (std::int32_t rest = mixture, i = 0; i < 4; ++i, rest /= 7)
          loads.push_back(kinds[static_cast<std::size_t>(rest % 7)]);
        StepLimits limits = kRoomy;
        limits.max_rows = max_rows;
        limits.max_logit_rows = max_logit_rows;
        const Plan plan = planned(loads, limits);
        std::int32_t rows = 0, logit_rows = 0, prompt_rows = 0;
        for (std::size_t i = 0; i < loads.size(); ++i) {
          const PlannedSequence& part = plan.sequences[i];
          const bool scores = part.n_rows == loads[i].n_pending;
          ASSERT_TRUE(part.k == 0 || (part.n_rows == 1 && loads[i].n_pending == 1));
          ASSERT_TRUE(loads[i].n_pending > 1 || part.n_rows == 1);
          rows += part.n_rows + part.k;
          logit_rows += (loads[i].score_prompt ? part.n_rows : scores ? 1 : 0) + part.k;
          prompt_rows += loads[i].n_pending > 1 ? part.n_rows : 0;
        }
        ASSERT_GT(rows, 0);
        ASSERT_LE(rows, max_rows);
        ASSERT_LE(logit_rows, max_logit_rows);
        ASSERT_LE(prompt_rows, limits.prefill_chunk);
      }
    }
  }
}

using Picked = std::vector<std::size_t>;

Picked picked(const std::vector<WaitingNeed>& waiting, std::int32_t free_pages, std::int32_t free_sequences) {
  Picked out;
  pick_admissible(waiting, free_pages, free_sequences, out);
  return out;
}

TEST(Admission, TakesThoseThatFitInOrder) {
  EXPECT_EQ(picked({{3}, {3}, {3}}, 10, 8), (Picked{0, 1, 2}));
  EXPECT_EQ(picked({{3}, {3}, {3}}, 8, 8), (Picked{0, 1}));
  EXPECT_EQ(picked({{1}, {1}, {1}}, 8, 2), (Picked{0, 1}));
  EXPECT_EQ(picked({}, 8, 2), Picked{});
  EXPECT_EQ(picked({{1}}, 8, 0), Picked{});
}

TEST(Admission, SmallRequestsPassALargeOneWithinABound) {
  EXPECT_EQ(picked({{9}, {1}, {1}}, 8, 8), (Picked{1, 2}));
  EXPECT_EQ(picked({{9}, {5}, {9}, {4}, {3}}, 8, 8), (Picked{1, 4}));
  EXPECT_EQ(picked({{9, kMostPassed}, {1}}, 8, 8), Picked{});
  EXPECT_EQ(picked({{9, kMostPassed - 1}, {1}, {1}}, 8, 8), Picked{1});
  EXPECT_EQ(picked({{1}, {9, 2}, {1}, {9, kMostPassed - 1}, {1}, {1}}, 8, 8), (Picked{0, 2, 4}));
  const std::vector<WaitingNeed> many(30, {1}), crowd = [&] {
    auto out = many;
    out[0].pages = 99;
    return out;
  }();
  EXPECT_EQ(picked(crowd, 50, 50).size(), std::size_t{kMostPassed});
}

}  // namespace
}  // namespace slip
