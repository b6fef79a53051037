// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/decode_time.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slip {
namespace {

// Passes of `free_rows` rows cost the same, each row beyond as much again per `free_rows`.
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

TEST(DecodeTime, WhereRowsCostNothingItIsTheAcceptedLength) {
  const DecodeTime time = DecodeTime::of_curve(curve_with(64), 2, 3);
  EXPECT_NEAR(time.saved(0, 0.5), 1 - 1 / 1.875, 1e-9);
  EXPECT_NEAR(time.saved(0, 0.5), DecodeTime::of_chain(3).saved(0, 0.5), 1e-9);
}

TEST(DecodeTime, WhereEveryRowCostsABetterDraftIsWorthNothing) {
  const DecodeTime time = DecodeTime::of_curve(curve_with(1), 2, 3);
  EXPECT_NEAR(time.saved(0, 0.4), 0, 1e-9);
  EXPECT_NEAR(time.saved(0.5, 0.4), 0, 1e-9);
}

TEST(DecodeTime, WithMoreSequencesTheSameGainIsWorthLess) {
  double before = 1;
  for (const std::int32_t n : {1, 2, 4, 8}) {
    const double saved = DecodeTime::of_curve(curve_with(4), n, 3).saved(0, 0.5);
    EXPECT_LE(saved, before) << n;
    before = saved;
  }
  EXPECT_NEAR(before, 0, 1e-9);
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
  DecodeTime time = DecodeTime::of_curve(curve_with(4), 2, 3);
  time.share = 0.25;
  shared.set(time);
  EXPECT_EQ(shared.get().per_token, time.per_token);
  EXPECT_EQ(shared.get().share, 0.25);
}

}  // namespace
}  // namespace slip
