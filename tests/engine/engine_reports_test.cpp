// SPDX-License-Identifier: Apache-2.0
// What the engine reports: the observations of an answer, and the figures of a step.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
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
    EXPECT_LE(step.draft_us + step.verify_us, step.step_us);
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

}  // namespace
}  // namespace slip
