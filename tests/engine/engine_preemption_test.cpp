// SPDX-License-Identifier: Apache-2.0
// A cache that cannot hold all running answers to their end: pages are reserved as answers grow, the youngest sequences
// lose theirs and go on later, and no answer changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/scheduler/plan.h"
#include "tests/common/test_clock.h"
#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using testing::full_request;
using Bench = testing::EngineBench;

constexpr std::size_t kRequests = 16;

std::int32_t preemptions(const Bench& bench) {
  const auto& steps = bench.listener.steps;
  return std::accumulate(steps.begin(), steps.end(), 0,
                         [](std::int32_t sum, const StepFigures& step) { return sum + step.n_preempted; });
}

// Long and short answers, greedy, seeded and scored ones, with and without drafts.
Request request_of(std::size_t i, Answer& answer) {
  std::vector<std::int32_t> prompt(5 + 17 * (i % 4));
  for (std::size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<std::int32_t>(t * (1 + i % 3)) % 23;
  Request request = full_request(i + 1, prompt, answer);
  request.max_tokens = 40 + 30 * static_cast<std::int32_t>(i % 8);
  request.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
  request.sampling.seed = i;
  request.score_prompt = i % 5 == 4;
  request.draft = testing::empty_live_draft();
  request.k = static_cast<std::int32_t>(i % 3) * 4;
  return request;
}

std::vector<Answer> answers_of(Bench& bench) {
  std::vector<Answer> answers(kRequests);
  for (std::size_t i = 0; i < kRequests; ++i) bench.engine->submit(request_of(i, answers[i]));
  EXPECT_TRUE(drain(*bench.engine));
  return answers;
}

TEST(EnginePreemption, NoAnswerDiffers) {
  Bench ample({}, {.max_running = 1, .prefix_cache = 0});
  const auto expected = answers_of(ample);
  EXPECT_EQ(preemptions(ample), 0);
  for (const double prefix_cache : {0.0, 0.25, 1.0}) {
    for (const std::int32_t n_pages : {11, 16, 30}) {  // the longest answer alone needs 10
      Bench tight({}, {.max_running = 8, .prefix_cache = prefix_cache}, {.n_pages = n_pages});
      const auto answers = answers_of(tight);
      for (std::size_t i = 0; i < kRequests; ++i) {
        EXPECT_TRUE(expected[i].same_as(answers[i])) << i << " with " << n_pages << " pages";
        EXPECT_EQ(expected[i].prompt_logprobs.size(), answers[i].prompt_logprobs.size()) << i;
      }
      EXPECT_GT(preemptions(tight), 0) << n_pages << " pages";
      EXPECT_EQ(tight.engine->n_free_pages(), n_pages);
    }
  }
}

// Bug: a request reserved its whole possible length, and max_tokens is the rest of the context where a client gives
// none. So a cache of 512 tokens ran these one after the other.
TEST(EnginePreemption, ALongLimitDoesNotKeepOthersWaiting) {
  Bench bench({}, {.max_running = 6}, {.n_pages = 16});
  std::vector<Answer> answers(6);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = full_request(i + 1, {static_cast<std::int32_t>(i)}, answers[i]);
    request.max_tokens = 400;
    request.sampling.temperature = 0;
    request.end_ids = {3, 4, 5};
    bench.engine->submit(std::move(request));
  }
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(bench.worker->most_sequences, 5);  // 3 pages each, and one for each that may grow
  for (const Answer& answer : answers) EXPECT_EQ(answer.summary.reason, StopReason::kEndToken);
}

// The oldest answer never waits, and those behind it end in a bounded order.
TEST(EnginePreemption, TheOldestKeepsItsPages) {
  Bench bench({}, {.max_running = 8}, {.n_pages = 12});
  std::vector<Answer> answers(8);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(bench.request(i + 1, answers[i], 300));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_GT(preemptions(bench), 0);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].tokens.size(), 300U);
    EXPECT_EQ(bench.listener.finished[i].id.value, i + 1) << "first come, first served";
  }
}

struct Asked {
  std::uint64_t tenant = 0;
  std::int32_t priority = 0;
};

// The order in which these answers end. They start one after the other, and each alone would nearly fill the cache.
std::vector<std::uint64_t> ends_of(const std::vector<Asked>& asked) {
  Bench bench({}, {.max_running = 3}, {.n_pages = 12});
  std::vector<Answer> answers(asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Request request = bench.request(i + 1, answers[i], 300);
    request.tenant = {asked[i].tenant};
    request.priority = asked[i].priority;
    bench.engine->submit(std::move(request));
    EXPECT_TRUE(bench.engine->step());
    EXPECT_EQ(bench.engine->n_running(), static_cast<std::int32_t>(i) + 1);
  }
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_GT(preemptions(bench), 0);
  std::vector<std::uint64_t> ids;
  for (const RequestSummary& one : bench.listener.finished) ids.push_back(one.id.value);
  return ids;
}

// Bug: the youngest answer was preempted, whatever its priority, so an urgent one gave way to those that it had passed
// in the queue.
TEST(EnginePreemption, AKeysLeastUrgentAnswerGivesWay) {
  const std::vector<Asked> urgent_later = {{.priority = 5}, {.priority = -5}, {.priority = -5}};
  EXPECT_EQ(ends_of(urgent_later), (std::vector<std::uint64_t>{2, 3, 1}));
}

// Else each key would send the lowest number.
TEST(EnginePreemption, APriorityTakesNothingFromAnotherKey) {
  const std::vector<Asked> asked = {{.tenant = 8}, {.tenant = 7, .priority = 1000}, {.tenant = 8, .priority = -1000}};
  EXPECT_EQ(ends_of(asked), (std::vector<std::uint64_t>{3, 2, 1})) << "the first and the last change places";
}

// A large prompt waits until there is room for it. Small requests behind it need not wait as long, and it does not wait
// for ever.
TEST(EnginePreemption, SmallRequestsPassALargeOneWithinABound) {
  Bench bench({}, {.max_running = 3, .prefix_cache = 0}, {.n_pages = 20});
  std::vector<Answer> answers(22);
  const auto submit = [&](std::size_t i, std::size_t n_prompt, std::int32_t max_tokens) {
    Request request =
        full_request(i + 1, std::vector<std::int32_t>(n_prompt, static_cast<std::int32_t>(i)), answers[i]);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    bench.engine->submit(std::move(request));
  };
  submit(0, 300, 200);
  submit(1, 400, 5);
  for (std::size_t i = 2; i < answers.size(); ++i) submit(i, 3, 5);
  EXPECT_TRUE(drain(*bench.engine));
  const auto place_of = [&](std::uint64_t id) {
    const auto& finished = bench.listener.finished;
    return std::find_if(finished.begin(), finished.end(), [&](const auto& one) { return one.id.value == id; }) -
           finished.begin();
  };
  EXPECT_EQ(place_of(2), kMostPassed + 1) << "after the small ones that passed it and the one it waited for";
  for (std::uint64_t id = 3; id < 3 + kMostPassed; ++id) EXPECT_LT(place_of(id), place_of(1));
}

// A preempted answer that reads its tokens again is no prompt that waits: its first token came long ago. So it takes no
// more of a step than the pace of the answer beside it leaves, and its own target is measured by that first token.
TEST(EnginePreemption, AResumedAnswerWithATargetIsReadInSmallPieces) {
  testing::TestClock clock(1'000'000);
  Bench bench({}, {.k = 0, .adaptive_k = true, .deadlines = true, .prefix_cache = 0}, {.n_pages = 12});
  // A pass takes 10 ms, and 100 µs for each row of a prompt.
  bench.worker->on_run = [&](int /*n_run*/) { clock.advance(10'000); };
  bench.worker->spoil = [&, run = 0](const StepInput& input, std::span<float> /*logits*/) mutable {
    if (std::exchange(run, bench.worker->n_runs) == bench.worker->n_runs) return;
    clock.advance(100 * static_cast<std::int64_t>(input.tokens.size() - input.kv.size()));
  };
  std::vector<Answer> answers(3);
  const auto submit = [&](std::size_t i, std::size_t n_prompt, std::int32_t max_tokens, SloTargets slo) {
    Request request =
        full_request(i + 1, std::vector<std::int32_t>(n_prompt, static_cast<std::int32_t>(i)), answers[i]);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.slo = slo;
    bench.engine->submit(std::move(request));
  };
  submit(0, 1, 300, {.tpot_us = 10'100});
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(bench.engine->step());  // enough to know the times
  submit(1, 64, 100, {});
  ASSERT_TRUE(bench.engine->step());
  submit(2, 1, 100, {.ttft_us = 100'000});  // the youngest: it goes on when the second one has ended
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(preemptions(bench), 1);
  std::int32_t n_read = 0;
  bool preempted = false;
  for (const StepFigures& step : bench.listener.steps) {
    preempted |= step.n_preempted > 0;
    if (!preempted || step.prefill_rows == 0) continue;
    EXPECT_EQ(step.n_decoding, 1);
    EXPECT_LE(step.prefill_rows, 8);
    n_read += step.prefill_rows;
  }
  EXPECT_GT(n_read, 64);
  const RequestSummary& resumed = answers[2].summary;
  EXPECT_EQ(answers[2].tokens.size(), 100U);
  EXPECT_TRUE(meets(resumed.slo, resumed.figures)) << measured_ttft_ms(resumed.figures) << " ms";
}

TEST(EnginePreemption, AWaitingSequenceCanBeCancelled) {
  Bench bench({}, {.max_running = 4}, {.n_pages = 12});
  std::vector<Answer> answers(4);
  for (std::size_t i = 0; i < answers.size(); ++i) bench.engine->submit(bench.request(i + 1, answers[i], 300));
  while (preemptions(bench) == 0) ASSERT_TRUE(bench.engine->step());
  for (std::uint64_t id : {2, 3, 4}) bench.engine->cancel({id});
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(answers[0].tokens.size(), 300U);
  for (std::size_t i = 1; i < answers.size(); ++i) EXPECT_EQ(answers[i].summary.reason, StopReason::kCancelled);
  EXPECT_EQ(bench.engine->n_free_pages(), 12);
}

// A scored prompt is told once, so its sequence holds its pages from the start to the end.
TEST(EnginePreemption, AScoredPromptIsNotReadTwice) {
  Bench bench({}, {.max_running = 4}, {.n_pages = 12});
  std::vector<Answer> answers(4);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = bench.request(i + 1, answers[i], 150);
    request.prompt.assign(40, static_cast<std::int32_t>(i));
    request.score_prompt = i % 2 == 1;
    request.top_logprobs = 0;
    bench.engine->submit(std::move(request));
  }
  EXPECT_TRUE(drain(*bench.engine));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].tokens.size(), 150U);
    EXPECT_EQ(answers[i].prompt_logprobs.size(), i % 2 == 1 ? 40U : 0U);
  }
}

}  // namespace
}  // namespace slip
