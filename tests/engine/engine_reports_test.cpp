// SPDX-License-Identifier: Apache-2.0
// What the engine reports: the observations of an answer, and the figures of a step.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using testing::ToyLanguage;
using testing::ToyWorker;
using Bench = testing::EngineBench;

TEST(EngineObserves, TheSameOfAnAnswerForEveryDraftLength) {
  std::vector<TopK> rows_at_zero;
  for (const std::int32_t k : {0, 1, 3, 8}) {
    Bench bench({}, {.k = k, .top_k_observed = 5});
    Answer answer;
    Request request = bench.request(1, answer, 40);
    request.end_ids = {4, 9};
    request.route = {{2}, {3}};
    bench.engine->submit(std::move(request));
    EXPECT_TRUE(drain(*bench.engine));
    const auto& recorded = bench.observations.recorded.at(1);
    std::vector<std::int32_t> committed;
    std::vector<TopK> rows;
    for (const Observation& seen : recorded) {
      EXPECT_EQ(seen.base_position, 1 + static_cast<std::int32_t>(committed.size()));
      ASSERT_EQ(seen.targets.size(), seen.committed.size());
      EXPECT_LE(seen.n_accepted, k);
      EXPECT_LE(seen.committed.size(), static_cast<std::size_t>(seen.n_accepted) + 1);
      committed.insert(committed.end(), seen.committed.begin(), seen.committed.end());
      rows.insert(rows.end(), seen.targets.begin(), seen.targets.end());
    }
    EXPECT_EQ(committed, answer.tokens);
    EXPECT_EQ(bench.observations.begun.at(1).route.topic.value, 2U);
    EXPECT_TRUE(bench.observations.finished.at(1));
    if (k == 0) rows_at_zero = rows;
    ASSERT_EQ(rows.size(), rows_at_zero.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].ids, rows_at_zero[i].ids);
      EXPECT_EQ(rows[i].logprobs, rows_at_zero[i].logprobs);
      EXPECT_EQ(rows[i].log_tail, rows_at_zero[i].log_tail);
    }
  }
}

TEST(EngineObserves, NothingOfARequestThatOptedOut) {
  Bench bench;
  Answer answer;
  Request request = bench.request(1, answer);
  request.learn = false;
  bench.engine->submit(std::move(request));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_TRUE(bench.observations.begun.empty());
  EXPECT_TRUE(bench.observations.recorded.empty());
  EXPECT_TRUE(bench.observations.finished.empty());
}

TEST(EngineReports, StepFiguresThatAddUpToTheRequests) {
  Bench bench({}, {.k = 4, .max_running = 3});
  std::vector<Answer> answers(7);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(bench.request(i + 1, answers[i], 30));
  EXPECT_TRUE(drain(*bench.engine));
  StepFigures sums;
  for (const StepFigures& step : bench.listener.steps) {
    sums.proposed += step.proposed;
    sums.accepted += step.accepted;
    sums.committed += step.committed;
    EXPECT_LE(step.plan_us + step.draft_us + step.verify_us, step.step_us);
  }
  RequestFigures expected;
  for (const RequestSummary& summary : bench.listener.finished) {
    expected.proposed += summary.figures.proposed;
    expected.accepted += summary.figures.accepted;
    expected.output_tokens += summary.figures.output_tokens;
    EXPECT_LE(summary.figures.submitted_us, summary.figures.first_token_us);
    EXPECT_LE(summary.figures.first_token_us, summary.figures.finished_us);
  }
  EXPECT_EQ(sums.proposed, expected.proposed);
  EXPECT_EQ(sums.accepted, expected.accepted);
  EXPECT_EQ(sums.committed, expected.output_tokens);
  EXPECT_EQ(expected.output_tokens, 7 * 30);
}

// Proposes three right tokens of a script and two wrong ones. Prompt lookup's: the second one of the chain,
// and the wrong one after the sibling.
class MixedProposer final : public Proposer {
 public:
  explicit MixedProposer(std::vector<std::int32_t> script) : script_(std::move(script)) {}
  bool drafts_for(const SequenceRef&) const override { return true; }
  void begin(const SequenceRef&) override {}
  CatchUpTimes catch_up(std::span<const DraftTask>, CatchUpBudget) override { return {}; }
  std::int32_t ready_depth(const SequenceRef&) override { return kMaxProposalNodes; }
  void on_verified(const SequenceRef&, const VerifyResult&) override {}
  void release(RequestId) override {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    for (const DraftTask& task : tasks) {
      if (task.nodes < 5) continue;
      const auto right = [&](std::size_t depth) {
        return script_[(task.sequence->tokens.size() - 1 + depth) % script_.size()];
      };
      Proposal& proposal = *task.proposal;
      proposal.add_to_chain(right(0), 0);
      proposal.add_to_chain(right(1), 0, ProposedBy::kPromptLookup);
      proposal.add_to_chain(kWrong, 0);
      proposal.add(right(2), /*parent=*/1, 0);
      proposal.add(kWrong, /*parent=*/3, 0, ProposedBy::kPromptLookup);
    }
    return 0;
  }

 private:
  static constexpr std::int32_t kWrong = 0;
  std::vector<std::int32_t> script_;
};

// The draft's tokens, guesses and siblings were counted together.
TEST(EngineReports, WhatProposedTheTokens) {
  const std::vector<std::int32_t> script{5, 9, 4, 17, 8, 2, 11};
  Engine engine({.k = 5}, std::make_unique<ToyWorker>(ToyLanguage{.script = script}), nullptr,
                std::make_unique<MixedProposer>(script), nullptr, {});
  Answer answer;
  Request request = testing::full_request(1, {3}, answer);
  request.sampling.temperature = 0;
  request.max_tokens = 41;  // nine proposals bring four each; the last tokens come without a proposal
  engine.submit(std::move(request));
  EXPECT_TRUE(drain(engine));
  const RequestFigures& figures = answer.summary.figures;
  constexpr auto kDraft = static_cast<std::size_t>(ProposedBy::kDraft),
                 kLookup = static_cast<std::size_t>(ProposedBy::kPromptLookup);
  const ProposerFigures &draft = figures.by_proposer[kDraft], &lookup = figures.by_proposer[kLookup];
  EXPECT_EQ(draft.proposed, 27);
  EXPECT_EQ(draft.accepted, 9);
  EXPECT_EQ(draft.first_rejections, 9);
  EXPECT_EQ(lookup.proposed, 18);
  EXPECT_EQ(lookup.accepted, 9);
  EXPECT_EQ(lookup.first_rejections, 9);
  EXPECT_EQ(figures.proposed, draft.proposed + lookup.proposed);
  EXPECT_EQ(figures.accepted, draft.accepted + lookup.accepted);
  EXPECT_EQ(figures.first_rejections, draft.first_rejections + lookup.first_rejections);
  EXPECT_EQ(figures.accepted_by_rank, (std::array<std::int32_t, kMaxTreeWidth>{18, 9, 0, 0}));
  EXPECT_EQ(figures.accepted_siblings, 9);
  EXPECT_EQ(figures.sized_proposals[4], 9);
  ASSERT_EQ(figures.tested_at.size(), 4U);
  const auto tested = [&](std::size_t position, std::size_t by, std::size_t rank) {
    const TestedTokens& at = figures.tested_at[position][by][rank];
    return std::pair(at.tested, at.accepted);
  };
  EXPECT_EQ(tested(0, kDraft, 0), std::pair(9, 9));
  EXPECT_EQ(tested(1, kLookup, 0), std::pair(9, 9));
  EXPECT_EQ(tested(2, kDraft, 0), std::pair(9, 0));
  EXPECT_EQ(tested(2, kDraft, 1), std::pair(9, 9));
  EXPECT_EQ(tested(3, kLookup, 0), std::pair(9, 0));
  EXPECT_EQ(tested(3, kDraft, 0), std::pair(0, 0));
}

// An engine planned its first sixteen steps with a fixed length at each start of a service.
TEST(EngineStepTimes, OfAnEarlierEngineDecideTheFirstDraftLengths) {
  const auto begin_with = [](const StepCurves& measured, Answer& answer) {
    Bench bench({}, {.k = 8, .adaptive_k = true, .step_curves = measured});
    EXPECT_EQ(bench.engine->step_curves().unleased.has_value(), measured.unleased.has_value());
    bench.engine->submit(bench.request(1, answer, 7));  // in eight passes, which change no time
    EXPECT_TRUE(drain(*bench.engine));
  };
  StepCurves cheap_rows{StepCurveState{.level_us = 1'000, .prompt_row_us = 0, .drafting = {0, 1}, .ratios = {}}, {}};
  StepCurves costly_rows = cheap_rows;
  for (std::int32_t rows = 1; rows <= 16; ++rows) {
    cheap_rows.unleased->ratios[rows] = 1;
    costly_rows.unleased->ratios[rows] = rows;
  }
  Answer unmeasured, cheap, costly;
  begin_with({}, unmeasured);
  begin_with(cheap_rows, cheap);
  begin_with(costly_rows, costly);
  EXPECT_LT(cheap.summary.figures.steps, unmeasured.summary.figures.steps);
  EXPECT_LT(unmeasured.summary.figures.steps, costly.summary.figures.steps);
  EXPECT_TRUE(cheap.same_as(unmeasured) && costly.same_as(unmeasured)) << "plans change no answer";
}

}  // namespace
}  // namespace slip
