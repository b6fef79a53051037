// SPDX-License-Identifier: Apache-2.0
// Background requests: they run only while the engine has no other request, and never get in the way of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using Bench = testing::EngineBench;

Request background(const Bench& bench, std::uint64_t id, Answer& answer, std::int32_t max_tokens = 12) {
  Request request = bench.request(id, answer, max_tokens);
  request.source = PromptSource{.call = RequestId{7}, .name = NameHash{8}, .group = 9, .created_us = 10};
  request.k = 0;
  return request;
}

TEST(EngineBackground, RunsWhereTheEngineHasNothingElseToDo) {
  Bench bench;
  Answer answer;
  bench.engine->submit(background(bench, 1, answer));
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_EQ(answer.tokens.size(), 12U);
  EXPECT_EQ(answer.n_finished, 1);
  EXPECT_EQ(answer.summary.reason, StopReason::kLength);
  const ObservedRequest& observed = bench.observations.begun.at(1);
  ASSERT_TRUE(observed.source);
  EXPECT_EQ(observed.source->call, RequestId{7});
  EXPECT_EQ(bench.observations.recorded.at(1).size(), 12U) << "one row a step: nothing is drafted";
  EXPECT_TRUE(bench.observations.finished.at(1));
}

TEST(EngineBackground, NoListenerAndNoGaugeKnowsOfIt) {
  Bench bench;
  Answer answer;
  bench.engine->submit(background(bench, 1, answer));
  ASSERT_TRUE(bench.engine->step());
  EXPECT_EQ(bench.engine->n_running(), 0);
  EXPECT_EQ(bench.engine->n_waiting(), 0);
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_TRUE(bench.listener.steps.empty());
  EXPECT_TRUE(bench.listener.finished.empty());
}

TEST(EngineBackground, EndsWhereItIsWhenARequestComes) {
  Bench bench;
  Answer interrupted, given, alone;
  bench.engine->submit(background(bench, 1, interrupted, 100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(bench.engine->step());
  bench.engine->submit(bench.request(2, given));
  ASSERT_TRUE(bench.engine->step());
  EXPECT_EQ(interrupted.n_finished, 1);
  EXPECT_EQ(interrupted.tokens.size(), 5U);
  EXPECT_EQ(interrupted.summary.reason, StopReason::kLength);
  EXPECT_TRUE(bench.observations.finished.at(1)) << "the part that exists is trained on";
  EXPECT_EQ(bench.listener.steps.size(), 1U) << "the request's first step is the one that ends the other";
  ASSERT_TRUE(drain(*bench.engine));
  Bench other;
  other.engine->submit(other.request(2, alone));
  ASSERT_TRUE(drain(*other.engine));
  EXPECT_TRUE(given.same_as(alone));
}

TEST(EngineBackground, WaitsWhileARequestRuns) {
  Bench bench;
  Answer given, later;
  bench.engine->submit(bench.request(2, given));
  ASSERT_TRUE(bench.engine->step());
  bench.engine->submit(background(bench, 1, later));
  while (given.n_finished == 0) {
    ASSERT_TRUE(later.tokens.empty());
    ASSERT_TRUE(bench.engine->step());
  }
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_EQ(later.tokens.size(), 12U);
}

TEST(EngineBackground, NoMoreThanFourRunAtOnce) {
  Bench bench;
  std::vector<Answer> answers(6);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(background(bench, 1 + i, answers[i]));
  ASSERT_TRUE(bench.engine->step());
  const auto n_begun = std::count_if(answers.begin(), answers.end(), [](const Answer& a) { return !a.tokens.empty(); });
  EXPECT_EQ(n_begun, 4);
  ASSERT_TRUE(drain(*bench.engine));
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens.size(), 12U);
}

TEST(EngineBackground, AFullQueueRefusesNoneAndCountsNone) {
  Bench bench({}, {.max_waiting = 1});
  Answer first, second, given;
  bench.engine->submit(background(bench, 1, first));
  bench.engine->submit(background(bench, 2, second));
  EXPECT_NO_THROW(bench.engine->submit(bench.request(3, given)));
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_EQ(given.tokens.size(), 12U);
}

TEST(EngineBackground, TakesNoPageThatThePrefixCacheKeeps) {
  // 8 pages of 32 slots. A request of 128 tokens leaves 4 of them in the prefix cache.
  Bench bench({}, {.prefix_cache = 0.5}, {.n_pages = 8});
  Answer given, refused, fits;
  Request request = bench.request(1, given, 4);
  request.prompt.assign(128, 1);
  bench.engine->submit(std::move(request));
  ASSERT_TRUE(drain(*bench.engine));
  const std::int32_t free_before = bench.engine->n_free_pages();
  bench.engine->submit(background(bench, 2, refused, 5 * 32));
  bench.engine->submit(background(bench, 3, fits, 2 * 32));
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_EQ(refused.summary.reason, StopReason::kCancelled);
  EXPECT_TRUE(refused.tokens.empty());
  EXPECT_EQ(fits.tokens.size(), 64U);
  EXPECT_EQ(bench.engine->n_free_pages(), free_before);
  Answer again;
  Request repeat = bench.request(4, again, 4);
  repeat.prompt.assign(128, 1);
  bench.engine->submit(std::move(repeat));
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_GT(again.summary.figures.cached_tokens, 90) << "its prefix is still there";
}

// Bug: the pages that a running one holds were subtracted from the free pages, which do not include them.
TEST(EngineBackground, PagesOfARunningOneCountOnce) {
  Bench bench({}, {}, {.n_pages = 8});
  Answer running, refused, fits;
  bench.engine->submit(background(bench, 1, running, 150));  // 5 pages at its end
  ASSERT_TRUE(bench.engine->step());
  ASSERT_LT(bench.engine->n_free_pages(), 8) << "it holds some of them";
  bench.engine->submit(background(bench, 2, refused, 4 * 32 - 1));
  bench.engine->submit(background(bench, 3, fits, 3 * 32 - 1));
  ASSERT_TRUE(drain(*bench.engine));
  EXPECT_EQ(refused.summary.reason, StopReason::kCancelled) << "the running one could need these pages";
  EXPECT_EQ(fits.summary.reason, StopReason::kLength);
  EXPECT_EQ(fits.tokens.size(), 95U);
  EXPECT_EQ(running.tokens.size(), 150U);
  EXPECT_EQ(bench.engine->n_free_pages(), 8);
}

TEST(EngineBackground, ClosingTheEngineWaitsForNone) {
  Bench bench;
  std::vector<Answer> answers(6);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(background(bench, 1 + i, answers[i], 200));
  ASSERT_TRUE(bench.engine->step());
  bench.engine->close();
  bench.engine->run({});
  EXPECT_LE(answers[0].tokens.size(), 2U);
  bench.engine.reset();
  for (const Answer& answer : answers) EXPECT_EQ(answer.n_finished, 1);
}

TEST(EngineBackground, ACancelledOneThatWaitsEnds) {
  Bench bench;
  std::vector<Answer> answers(5);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(background(bench, 1 + i, answers[i], 50));
  ASSERT_TRUE(bench.engine->step());
  bench.engine->cancel(RequestId{5});
  ASSERT_TRUE(bench.engine->step());
  EXPECT_EQ(answers[4].summary.reason, StopReason::kCancelled);
  ASSERT_TRUE(drain(*bench.engine));
}

}  // namespace
}  // namespace slip
