// SPDX-License-Identifier: Apache-2.0
#include "engine/speed_forecast.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "tests/common/test_clock.h"

namespace slip {
namespace {

constexpr std::int32_t kMaxRunning = 8;

// A step without prompts: each of `n` sequences commits two tokens.
StepFigures decoding(std::int32_t n, std::int64_t us) {
  StepFigures figures;
  figures.step_us = us;
  figures.n_decoding = n;
  figures.committed = 2 * n;
  return figures;
}

StepFigures reading(std::int32_t rows, std::int64_t us, std::int32_t n_decoding = 0) {
  StepFigures figures = decoding(n_decoding, us);
  figures.prefill_rows = rows;
  return figures;
}

RequestSummary finished(std::int32_t prompt, std::int32_t cached, std::int64_t answer_us) {
  RequestSummary summary;
  summary.figures.prompt_tokens = prompt;
  summary.figures.cached_tokens = cached;
  summary.figures.first_token_us = 1;
  summary.figures.finished_us = 1 + answer_us;
  return summary;
}

// Knows steps of 10 ms with one sequence and 16 ms with four, 100 µs for a row of a prompt, and that half of each
// prompt of 200 tokens is cached.
class SpeedForecastTest : public ::testing::Test {
 protected:
  SpeedForecastTest() {
    for (int i = 0; i < 8; ++i) forecast_.on_step(decoding(1, 1'000'000));  // cold
    forecast_.on_step(decoding(1, 10'000));
    forecast_.on_step(decoding(4, 16'000));
    forecast_.on_step(reading(100, 26'000, /*n_decoding=*/4));
    forecast_.on_finished(finished(200, 100, /*answer_us=*/800'000));
  }
  SloTargets predict(std::int32_t n_running, std::int32_t n_waiting = 0) const {
    return predict_after(n_running, n_waiting, /*n_before=*/n_waiting);
  }
  SloTargets predict_after(std::int32_t n_running, std::int32_t n_waiting, std::int32_t n_before) const {
    return forecast_.predict({n_running, n_waiting, n_before}, {.prompt = 400, .answer = 101});
  }

  SpeedForecast forecast_{kMaxRunning};
};

TEST_F(SpeedForecastTest, KnowsNothingBeforeItsFirstSteps) {
  const SpeedForecast none(kMaxRunning);
  const SloTargets predicted = none.predict({}, {.prompt = 100, .answer = 100});
  EXPECT_FALSE(predicted.any());
  EXPECT_NO_THROW(require_attainable({.tpot_us = 1, .ttft_us = 1, .e2e_us = 1}, predicted));
}

TEST_F(SpeedForecastTest, TakesTheNearestNumberOfSequencesThatWasMeasured) {
  EXPECT_EQ(predict(0).tpot_us, 5'000);
  EXPECT_EQ(predict(1).tpot_us, 5'000);
  EXPECT_EQ(predict(2).tpot_us, 8'156) << "8 ms, and one step in 32 that read a prompt";
  EXPECT_EQ(predict(3).tpot_us, 8'156);
  EXPECT_EQ(predict(7).tpot_us, 8'156);
}

TEST_F(SpeedForecastTest, CountsPromptsLessWhatIsCached) {
  EXPECT_EQ(predict(0).ttft_us, 200 * 100 + 10'000);
  EXPECT_EQ(predict(0).e2e_us, 200 * 100 + 10'000 + 100 * 5'000);
  EXPECT_EQ(predict(2, /*n_waiting=*/2).ttft_us, (200 + 2 * 100) * 100 + 16'000);
}

TEST_F(SpeedForecastTest, CountsTheWaitForAPlace) {
  EXPECT_EQ(predict(7).ttft_us, 200 * 100 + 16'000);
  EXPECT_EQ(predict(8).ttft_us, 200 * 100 + 16'000 + 800'000 / kMaxRunning);
}

// Bug: all waiting requests counted as ahead, so an urgent request, or the first one of a key, was refused for the
// others' time.
TEST_F(SpeedForecastTest, RequestsThatStartLaterAreNotWaitedFor) {
  EXPECT_EQ(predict_after(8, 6, 0).ttft_us, predict(8).ttft_us);
  EXPECT_EQ(predict_after(8, 6, 2).ttft_us, predict(8, /*n_waiting=*/2).ttft_us);
  EXPECT_EQ(predict_after(1, 2, 0).tpot_us, predict(3).tpot_us) << "they run beside the answer";
  EXPECT_EQ(predict_after(1, 2, 0).ttft_us, 200 * 100 + 16'000);
}

TEST_F(SpeedForecastTest, FollowsWhatItMeasures) {
  for (int i = 0; i < 400; ++i) forecast_.on_step(decoding(1, 20'000));
  EXPECT_NEAR(static_cast<double>(predict(0).tpot_us), 10'000, 10);
}

// Bug: steps that were faster than predicted did not count, so that noise alone gave a prompt's row a time.
TEST_F(SpeedForecastTest, PromptsThatAddNothingTakeNothing) {
  for (int i = 0; i < 400; ++i) forecast_.on_step(reading(100, i % 2 == 0 ? 21'000 : 11'000, /*n_decoding=*/4));
  EXPECT_LT(predict(3).ttft_us, 200 * 5 + 16'000) << "the slow ones alone say 50 µs a row";
  EXPECT_GT(predict(3).e2e_us, 0) << "no time is a time";
}

// Bug: after one slow step, a speed that all clients asked for was refused for ever, since only steps change a
// prediction.
TEST_F(SpeedForecastTest, AnIdleEngineDoesNotTrustOldEstimates) {
  testing::TestClock clock(1'000'000);
  forecast_.on_step(decoding(1, 10'000));
  clock.advance(SpeedForecast::kStaleUs - 1);
  EXPECT_EQ(predict(0).tpot_us, 5'000);
  clock.advance(1);
  EXPECT_FALSE(predict(0).any());
  EXPECT_EQ(predict(1).tpot_us, 5'000) << "a request runs, so its steps are measured";
  EXPECT_EQ(predict(0, /*n_waiting=*/1).tpot_us, 5'000);
  forecast_.on_step(decoding(1, 10'000));
  EXPECT_EQ(predict(0).tpot_us, 5'000);
}

// Bug: with four sequences always running and one slow step of five behind them, each fifth request was refused for
// ever, since no step of five measured it again.
TEST_F(SpeedForecastTest, AnOldEstimateOfAnotherLoadIsTriedAgain) {
  testing::TestClock clock(1'000'000);
  forecast_.on_step(decoding(5, 1'000'000));
  forecast_.on_step(decoding(7, 1'200'000));
  clock.advance(SpeedForecast::kStaleUs - 1);
  forecast_.on_step(decoding(4, 16'000));
  EXPECT_EQ(predict(4).tpot_us, 500'000);
  clock.advance(1);
  forecast_.on_step(decoding(4, 16'000));
  EXPECT_LT(predict(4).tpot_us, 9'000) << "as with four";
  EXPECT_EQ(predict(6).tpot_us, 600'000) << "only one request more is tried";
  forecast_.on_step(decoding(5, 20'000));
  EXPECT_GT(predict(4).tpot_us, 400'000) << "one step is measured; the next request waits for more";
  for (int i = 0; i < 400; ++i) forecast_.on_step(decoding(5, 20'000));
  EXPECT_NEAR(static_cast<double>(predict(4).tpot_us), 10'000, 10);
}

// Bug: a prompt that the last step before an idle time had read was waited for until the next step.
TEST_F(SpeedForecastTest, CountsNoPromptOfARequestThatEnded) {
  StepFigures last = reading(100, 10'000);
  last.n_prefilling = 1;
  forecast_.on_step(last);
  EXPECT_EQ(predict(0).ttft_us, 200 * 100 + 10'000);
  EXPECT_EQ(predict(1).ttft_us, (200 + 100) * 100 + 10'000);
}

TEST(RequireAttainable, NamesTheTargetAndBothTimes) {
  const SloTargets predicted{.tpot_us = 12'340, .ttft_us = 300'000, .e2e_us = 2'000'000};
  EXPECT_NO_THROW(require_attainable({}, predicted));
  EXPECT_NO_THROW(require_attainable(predicted, predicted));
  const auto refused = [&](const SloTargets& asked) -> std::string {
    try {
      require_attainable(asked, predicted);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnattainable);
      return error.param() + ": " + error.message();
    }
    return "served";
  };
  EXPECT_EQ(refused({.tpot_us = 5'000}), "slo.tpot_ms: slo.tpot_ms asks for 5 ms; 12.3 ms are predicted now");
  EXPECT_EQ(refused({.tpot_us = 20'000, .ttft_us = 299'000}),
            "slo.ttft_ms: slo.ttft_ms asks for 299 ms; 300 ms are predicted now");
  EXPECT_EQ(refused({.e2e_us = 1'000'000}), "slo.e2e_ms: slo.e2e_ms asks for 1000 ms; 2000 ms are predicted now");
}

}  // namespace
}  // namespace slip
