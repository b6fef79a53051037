// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/decode_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace slip {
namespace {

// Passes of up to `free_rows` rows take the same time; each further `free_rows` rows add as much again.
StepCurve curve_with(std::int32_t free_rows) {
  StepCurve curve;
  for (std::int32_t r = 1; r <= StepCurve::kRows; ++r) {
    curve.us[static_cast<std::size_t>(r - 1)] = 10'000.0 * std::max(1.0, static_cast<double>(r) / free_rows);
  }
  curve.more_row_us = 10'000.0 / free_rows;
  return curve;
}

TEST(AcceptedLength, IsOneTokenAndWhatIsAcceptedOnTheWay) {
  EXPECT_DOUBLE_EQ(accepted_length(3, 0), 1);
  EXPECT_DOUBLE_EQ(accepted_length(3, 0.5), 1.875);
  EXPECT_DOUBLE_EQ(accepted_length(3, 1), 4);
  EXPECT_DOUBLE_EQ(accepted_length(0, 0.5), 1);
}

DecodeTime time_of(const StepCurve& curve, const std::vector<double>& alphas) {
  std::vector<DraftOutlook> outlooks;
  for (const double alpha : alphas) outlooks.push_back({.most = 3, .alpha = alpha});
  DecodeTimeEstimate estimate;
  for (int step = 0; step < 12; ++step) estimate.add(curve, outlooks, 3);
  return estimate.time();
}

TEST(DecodeTime, WhereRowsCostNothingItIsTheAcceptedLength) {
  for (const std::vector<double>& alphas : {std::vector<double>{0}, {0, 0}, {0, 0, 0, 0}}) {
    const DecodeTime time = time_of(curve_with(64), alphas);
    EXPECT_NEAR(time.saved(0, 0.5), 1 - 1 / 1.875, 1e-9) << alphas.size();
    EXPECT_NEAR(time.saved(0, 0.5), DecodeTime::of_chain(3).saved(0, 0.5), 1e-9) << alphas.size();
  }
}

TEST(DecodeTime, WhereEveryRowCostsABetterDraftIsWorthNothing) {
  const DecodeTime time = time_of(curve_with(1), {0, 0});
  EXPECT_NEAR(time.saved(0, 0.4), 0, 1e-9);
  EXPECT_NEAR(time.saved(0.5, 0.4), 0, 1e-9);
}

TEST(DecodeTime, WithMoreSequencesTheSameGainIsWorthLess) {
  double before = 1;
  for (const std::size_t n : {1, 2, 4, 8}) {
    const double saved = time_of(curve_with(4), std::vector<double>(n, 0)).saved(0, 0.5);
    EXPECT_LE(saved, before + 1e-9) << n;
    before = saved;
  }
  EXPECT_NEAR(before, 0, 1e-9);
}

// Four rows are free. If another sequence's draft uses three of them, a better draft saves little. Bug: it was valued
// as if all sequences had its rate and each had all free rows.
TEST(DecodeTime, ABetterDraftTakesRowsFromTheOthers) {
  const double alone = time_of(curve_with(4), {0, 0}).saved(0, 0.35);
  const double beside_good_ones = time_of(curve_with(4), {0.65, 0.65}).saved(0, 0.35);
  EXPECT_GT(alone, 0.25);
  EXPECT_LT(beside_good_ones, 0.6 * alone);
}

// Each sequence of a step is replaced in turn, and old steps are forgotten.
TEST(DecodeTime, FollowsTheSequencesOfTheStep) {
  DecodeTimeEstimate estimate;
  const std::vector<DraftOutlook> poor(2, {.most = 3, .alpha = 0}), good(4, {.most = 3, .alpha = 0.8});
  for (int step = 0; step < 400; ++step) estimate.add(curve_with(4), poor, 3);
  const double saved = estimate.time().saved(0, 0.35);
  for (int step = 0; step < 400; ++step) estimate.add(curve_with(4), good, 3);
  EXPECT_NEAR(estimate.time().sequences, 4, 0.01);
  EXPECT_LT(estimate.time().saved(0, 0.35), saved);
}

TEST(DecodeTime, OnlyTheTimeOfDecodingIsSaved) {
  DecodeTime time = DecodeTime::of_chain(3);
  const double whole = time.saved(0.2, 0.3);
  time.share = 0.5;
  EXPECT_DOUBLE_EQ(time.saved(0.2, 0.3), whole / 2);
  EXPECT_DOUBLE_EQ(time.saved(0.2, 0), 0);
  EXPECT_DOUBLE_EQ(time.saved(1, 0.3), 0);
}

TEST(SharedDecodeTime, GivesWhatWasSet) {
  SharedDecodeTime shared;
  EXPECT_DOUBLE_EQ(shared.get().saved(0, 0.5), DecodeTime::of_chain(3).saved(0, 0.5));
  DecodeTime time = time_of(curve_with(4), {0, 0.5});
  time.share = 0.25;
  shared.set(time);
  EXPECT_EQ(shared.get().per_token, time.per_token);
  EXPECT_EQ(shared.get().sequences, time.sequences);
  EXPECT_EQ(shared.get().share, 0.25);
}

}  // namespace
}  // namespace slip
