// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/deadlines.h"

#include <gtest/gtest.h>

#include <vector>

namespace slip {
namespace {

constexpr StepForecast kForecast{.decode_us = 10'000, .prompt_row_us = 500};

// An answer of 11 tokens after the first one in 200 ms, two tokens a step, with a target of 20 ms a token: it is 20 ms
// and the next step's 40 ms ahead.
DeadlineLoad decoding(std::int64_t tpot_us = 20'000) {
  DeadlineLoad load;
  load.slo.tpot_us = tpot_us;
  load.since_us = 200'000;
  load.n_done = 11;
  load.tokens_per_step = 2;
  return load;
}

DeadlineLoad prompt(std::int32_t n_tokens, std::int64_t waited_us, std::int64_t ttft_us = 0) {
  DeadlineLoad load;
  load.n_pending = n_tokens;
  load.since_us = waited_us;
  load.slo.ttft_us = ttft_us;
  return load;
}

std::int32_t rows(const std::vector<DeadlineLoad>& loads) {
  return prompt_rows_in_time(loads, kForecast, 256);
}

TEST(Deadlines, SlackIsWhatTheNextStepMayTake) {
  EXPECT_DOUBLE_EQ(slack_us(decoding()), 60'000);
  EXPECT_DOUBLE_EQ(slack_us(decoding(15'000)), -5'000);
}

// A second for 21 tokens, of which 200 ms are gone at the first one: 40 ms for each other one.
TEST(Deadlines, ATimeForTheWholeAnswerIsOneForEachToken) {
  const SloTargets whole{.e2e_us = 1'000'000};
  EXPECT_EQ(planned_targets(whole, 200'000, 21).tpot_us, 40'000);
  EXPECT_EQ(planned_targets(whole, 200'000, 1).tpot_us, 800'000) << "there is no other one";
  EXPECT_EQ(planned_targets(whole, 1'200'000, 21).tpot_us, 1) << "too late: a target that nothing reaches";
  EXPECT_EQ(planned_targets(whole, 0, 21).ttft_us, 1'000'000);
  EXPECT_EQ(planned_targets(whole, 0, 21).tpot_us, 0);
}

TEST(Deadlines, TheStricterTargetHolds) {
  const SloTargets all{.tpot_us = 30'000, .ttft_us = 100'000, .e2e_us = 1'000'000};
  EXPECT_EQ(planned_targets(all, 200'000, 21).tpot_us, 30'000);
  EXPECT_EQ(planned_targets(all, 200'000, 41).tpot_us, 20'000);
  EXPECT_EQ(planned_targets(all, 0, 21).ttft_us, 100'000);
  const SloTargets paced{.tpot_us = 30'000, .ttft_us = 100'000};
  EXPECT_EQ(planned_targets(paced, 200'000, 41).tpot_us, 30'000);
}

TEST(Deadlines, ASequenceWinsBackWhatItsStepsBringInLessThanItsTarget) {
  DeadlineLoad load = decoding();
  EXPECT_DOUBLE_EQ(slack_soon_us(load, kForecast), 60'000) << "its answer ends with this step";
  load.remaining = 4;
  EXPECT_DOUBLE_EQ(slack_soon_us(load, kForecast), 60'000 + 4 * 15'000) << "5 ms a token instead of 20";
  load.remaining = 1000;
  EXPECT_DOUBLE_EQ(slack_soon_us(load, kForecast), 60'000 + 16 * 15'000);
  load.tokens_per_step = 1;
  load.slo.tpot_us = 5'000;
  EXPECT_LT(slack_soon_us(load, kForecast), slack_us(load)) << "it falls further behind";
}

TEST(Deadlines, PromptsWhoseRequestsKeepOthersWaitingAreRead) {
  StepForecast forecast = kForecast;
  forecast.has_queue = true;
  EXPECT_EQ(prompt_rows_in_time(std::vector{decoding(15'000), prompt(300, 0)}, forecast, 256), 256);
}

TEST(Deadlines, PromptsGetTheTimeThatTheTightestAnswerLeaves) {
  EXPECT_EQ(rows({decoding(), prompt(300, 0)}), 20) << "10 ms beside this step's decoding and that of four more";
  EXPECT_EQ(rows({decoding(), decoding(18'000), prompt(300, 0)}), 8) << "18 · 13 − 200 = 34 ms";
  EXPECT_EQ(rows({decoding(24'000), prompt(300, 0)}), 124) << "24 · 13 − 200 = 112 ms";
  EXPECT_EQ(rows({decoding(40'000), prompt(300, 0)}), 256);
}

TEST(Deadlines, WithoutTargetsPromptsAreReadAsBefore) {
  EXPECT_EQ(rows({decoding(0), prompt(300, 0)}), 256);
  EXPECT_EQ(rows({prompt(300, 0)}), 256);
  EXPECT_EQ(rows({}), 256);
  EXPECT_EQ(prompt_rows_in_time(std::vector{decoding(15'000)}, {.decode_us = 10'000}, 256), 256)
      << "what a row takes is not known yet";
}

TEST(Deadlines, ALateAnswerLeavesPromptsAFewRows) {
  EXPECT_EQ(rows({decoding(15'000), prompt(300, 0)}), 8);
  EXPECT_EQ(prompt_rows_in_time(std::vector{decoding(15'000)}, kForecast, 4), 4);
}

TEST(Deadlines, AnAnswerThatCannotBeOnTimeHoldsNobodyUp) {
  EXPECT_FALSE(can_be_on_time(decoding(4'000), kForecast)) << "two tokens a step of 10 ms";
  EXPECT_TRUE(can_be_on_time(decoding(5'000), kForecast));
  EXPECT_EQ(rows({decoding(4'000), prompt(300, 0)}), 256);
  EXPECT_EQ(rows({decoding(4'000), decoding(), prompt(300, 0)}), 20);
}

TEST(Deadlines, APromptAtRiskIsReadAtOnce) {
  EXPECT_EQ(rows({decoding(15'000), prompt(300, 0, 1'000'000)}), 8) << "it takes 160 ms";
  EXPECT_EQ(rows({decoding(15'000), prompt(300, 700'000, 1'000'000)}), 256);
  EXPECT_EQ(rows({decoding(15'000), prompt(300, 4'999'999)}), 8);
  EXPECT_EQ(rows({decoding(15'000), prompt(300, 5'000'000)}), 256) << "no prompt waits for ever";
}

// Four steps and 256 rows take 168 ms.
TEST(Deadlines, SequencesAheadSkipTheStepForLateOnes) {
  const auto left_out = [](const std::vector<DeadlineLoad>& loads, const StepForecast& forecast = kForecast) {
    std::vector<std::uint8_t> skipped;
    mark_sequences_to_skip(loads, forecast, 256, skipped);
    return skipped;
  };
  using Left = std::vector<std::uint8_t>;
  const DeadlineLoad late = decoding(15'000), ahead = decoding(29'000), nearly_ahead = decoding(28'000);
  EXPECT_EQ(left_out({late, ahead, nearly_ahead}), (Left{0, 1, 0}));
  EXPECT_EQ(left_out({late, decoding(0), prompt(300, 0)}), (Left{0, 0, 0})) << "without a target nobody is ahead";
  EXPECT_EQ(left_out({decoding(), ahead}), (Left{0, 0})) << "nobody is late";
  DeadlineLoad soon_on_time = late;
  soon_on_time.remaining = 16;
  EXPECT_EQ(left_out({soon_on_time, ahead}), (Left{0, 0}));
  EXPECT_EQ(left_out({decoding(4'000), ahead}), (Left{0, 0})) << "who cannot be on time holds nobody up";
  EXPECT_EQ(left_out({late, ahead}, {.decode_us = 10'000}), (Left{0, 0})) << "what a row takes is not known yet";
  EXPECT_EQ(left_out({}), Left{});
}

TEST(Deadlines, TokensOfALateAnswerAreWorthMoreIfItCanCatchUp) {
  EXPECT_EQ(worth_of_token(decoding(), kForecast), 1);
  EXPECT_GT(worth_of_token(decoding(15'000), kForecast), 1);
  EXPECT_EQ(worth_of_token(decoding(4'000), kForecast), 1);
  EXPECT_EQ(worth_of_token(decoding(0), kForecast), 1);
  EXPECT_EQ(worth_of_token(prompt(300, 0, 1), kForecast), 1);
}

}  // namespace
}  // namespace slip
