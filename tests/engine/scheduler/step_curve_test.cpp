// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_curve.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slip {
namespace {

// As measured on AVX2: memory bounds the first four rows, then a tile of six, then two tiles.
double tiles_us(std::int32_t rows) {
  const std::int32_t tiles = (rows + 3) / 4;
  return rows <= 4 ? 10'000 : rows <= 6 ? 14'000 : 9'000.0 * tiles;
}

TEST(StepCurve, GoesOnAlongALineBeyondItsRows) {
  StepCurve curve;
  curve.us.fill(5'000);
  curve.more_row_us = 10;
  EXPECT_EQ(curve.pass_us(0), 0);
  EXPECT_EQ(curve.pass_us(StepCurve::kRows), 5'000);
  EXPECT_EQ(curve.pass_us(StepCurve::kRows + 100), 6'000);
}

// Passes of 4, 8, 12 … rows take 1, 2, 3 … ms.
TEST(StepCurve, ARowCostsAtLeastItsShareOfATile) {
  StepCurve curve;
  for (std::size_t row = 0; row < curve.us.size(); ++row) {
    const std::size_t tiles = 1 + row / 4;
    curve.us[row] = 1000.0 * static_cast<double>(tiles);
  }
  EXPECT_NEAR(curve.least_row_us(4), 250, 1e-9);
  EXPECT_NEAR(curve.least_row_us(2), 0, 1e-9);
}

TEST(StepCurveEstimate, FindsTheStepsOfTilesUnderALevelThatDrifts) {
  StepCurveEstimate estimate;
  EXPECT_FALSE(estimate.known());
  double load = 1;
  for (int i = 0; i < 2'000; ++i) {
    const std::int32_t rows = 1 + i * 7 % 8;
    load = i < 1'000 ? 1 : 1.5;
    estimate.add(rows, load * tiles_us(rows), 1 + i % 3, 200.0 * (1 + i % 3));
  }
  ASSERT_TRUE(estimate.known());
  const StepCurve curve = estimate.curve();
  for (std::int32_t rows = 1; rows <= 8; ++rows) {
    EXPECT_NEAR(curve.pass_us(rows), load * tiles_us(rows), 0.02 * load * tiles_us(rows)) << rows;
  }
  EXPECT_NEAR(curve.drafting.pass_us, 200, 1);
  EXPECT_NEAR(curve.drafting.begin_us, 0, 1);
  EXPECT_EQ(curve.drafting.us(0), 0);
  EXPECT_NEAR(curve.drafting.us(4), 800, 4);
}

// As measured beside a 160M target: the first draft pass finds its weights in memory, and takes 350 µs, later ones 85.
TEST(DraftTimeEstimate, TellsTheBeginningFromTheDepths) {
  DraftTimeEstimate estimate;
  EXPECT_EQ(estimate.line().pass_us, 0);
  for (int i = 0; i < 200; ++i) {
    const std::int32_t depth = 1 + i % 5;
    estimate.add(depth, i % 37 == 36 ? 8'000 : 265 + 85.0 * depth);  // some are interrupted
  }
  const DraftTime line = estimate.line();
  EXPECT_NEAR(line.begin_us, 265, 80);
  EXPECT_NEAR(line.pass_us, 85, 25);
}

// Without other depths nothing tells the two apart; what is known is the time of this depth. A later change is
// followed.
TEST(DraftTimeEstimate, OneDepthIsALineThroughZero) {
  DraftTimeEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.add(3, 600);
  EXPECT_NEAR(estimate.line().begin_us, 0, 1e-6);
  EXPECT_NEAR(estimate.line().pass_us, 200, 1e-6);
  for (int i = 0; i < 300; ++i) estimate.add(3, 300);
  EXPECT_NEAR(estimate.line().pass_us, 100, 2);
  estimate.add(0, 100);
  estimate.add(2, -1);
  EXPECT_NEAR(estimate.line().pass_us, 100, 2) << "neither is a drafting";
}

// Where deeper draftings happened to take less time, a depth still costs nothing rather than less.
TEST(DraftTimeEstimate, NoDepthPays) {
  DraftTimeEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.add(1 + i % 2, i % 2 == 0 ? 500 : 300);
  EXPECT_EQ(estimate.line().pass_us, 0);
  EXPECT_NEAR(estimate.line().begin_us, 400, 20);
}

// Where compute bounds the pass, rows beyond those that are measured cost what the last ones cost.
TEST(StepCurveEstimate, MoreRowsCostWhatTheLastOnesCost) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 2'000; ++i) {
    const std::int32_t rows = 16 + i * 16 % 128;
    estimate.add(rows, 2'000 + 300.0 * rows, 0, 0);
  }
  EXPECT_NEAR(estimate.curve().pass_us(256), 2'000 + 300 * 256, 4'000);
}

// A guess of 4 % of a pass for each further row was never put right: no step had so many rows.
TEST(StepCurveEstimate, RowsBeyondTheMeasuredOnesAreGuessedByTheirSlope) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 400; ++i) {
    const std::int32_t rows = 8 + 8 * (i % 4);
    estimate.add(rows, 10'000 + 100.0 * rows, 0, 0);
  }
  EXPECT_NEAR(estimate.curve().pass_us(64), 16'400, 200);
  EXPECT_NEAR(estimate.curve().pass_us(160), 26'000, 500);
  // Rows that cost nothing so far are no promise for many more; nor does a jump go on for ever.
  StepCurveEstimate flat, jump;
  for (int i = 0; i < 400; ++i) {
    flat.add(1 + i % 8, 10'000, 0, 0);
    jump.add(4 + i % 2, i % 2 == 0 ? 10'000 : 20'000, 0, 0);
  }
  EXPECT_NEAR(flat.curve().pass_us(28), 1.1 * 10'000, 100);
  EXPECT_NEAR(jump.curve().pass_us(15), 1.4 * 20'000, 500);
}

// Regression: a server that started into a burst had measured one and two rows only, took 40 more for half a pass, and
// drafted 94 tokens beside a prompt of which 3 were accepted. The steps with prompts knew what rows cost.
TEST(StepCurveEstimate, ARowThatIsNotMeasuredCostsAtLeastItsArithmetic) {
  const auto pass_us = [](std::int32_t rows) { return std::max(9'000.0, 800.0 * rows); };
  StepCurveEstimate estimate;
  for (int i = 0; i < 20; ++i) estimate.add(1 + i % 2, pass_us(1), 0, 0);
  EXPECT_LT(estimate.curve().pass_us(40), 15'000) << "without a prompt nothing else is known";
  estimate.add_prompts(StepCurve::kRows / 2 - 1, 1'000'000);  // memory may bound so few rows: ignored
  for (const std::int32_t rows : {256, 80, 256}) estimate.add_prompts(rows, pass_us(rows));
  const StepCurve curve = estimate.curve();
  for (const std::int32_t rows : {40, 128, 256}) EXPECT_NEAR(curve.pass_us(rows), pass_us(rows), 1) << rows;
  EXPECT_LT(curve.pass_us(8), 9'500) << "memory bounds it, so it is worth a trial";
  estimate.add_prompts(64, 90'000);  // a pass over few rows waits for memory: it says less
  EXPECT_NEAR(estimate.curve().pass_us(128), pass_us(128), 0.02 * pass_us(128));
  for (int i = 0; i < 50; ++i) estimate.add(40, 20'000, 0, 0);
  EXPECT_NEAR(estimate.curve().pass_us(40), 20'000, 200) << "what is measured counts";
}

// In a burst each step has another row count, and none is measured yet when the curve is known.
TEST(StepCurveEstimate, WithoutAnyMeasuredRowCountArithmeticIsABoundToo) {
  StepCurveEstimate estimate;
  for (std::int32_t rows = 1; rows <= 16; ++rows) estimate.add(rows, 9'000, 0, 0);
  ASSERT_TRUE(estimate.known());
  EXPECT_NEAR(estimate.curve().pass_us(100), 9'000, 1);
  estimate.add_prompts(256, 256 * 800.0);
  EXPECT_NEAR(estimate.curve().pass_us(100), 100 * 800.0, 1);
}

TEST(StepCurveEstimate, AnInterruptedPassChangesLittle) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 400; ++i) estimate.add(1 + i % 4, i % 50 == 49 ? 400'000 : 10'000, 0, 0);
  EXPECT_NEAR(estimate.curve().pass_us(4), 10'000, 2'500);
}

// A first pass that was interrupted must not keep its number of rows from being tried again. Negative control: three
// slow passes do.
TEST(StepCurveEstimate, OneSlowPassDoesNotPriceItsRows) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 50; ++i) estimate.add(i % 2 == 0 ? 4 : 8, i % 2 == 0 ? 10'000 : 20'000, 0, 0);
  StepCurveEstimate slow = estimate;
  estimate.add(5, 25'000, 0, 0);
  EXPECT_LT(estimate.curve().pass_us(5), 12'500) << "five rows are still tried";
  estimate.add(5, 11'000, 0, 0);
  estimate.add(5, 11'100, 0, 0);
  EXPECT_NEAR(estimate.curve().pass_us(5), 11'000, 300);
  for (int i = 0; i < 3; ++i) slow.add(5, 19'000, 0, 0);
  EXPECT_GT(slow.curve().pass_us(5), 17'000);
}

// Two rows and eight are measured: four are guessed slightly below the line between them, so that they are tried.
TEST(StepCurveEstimate, GuessesBetweenNeighboursAndAscends) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 50; ++i) estimate.add(i % 2 == 0 ? 2 : 8, i % 2 == 0 ? 10'000 : 20'000, 0, 0);
  const StepCurve curve = estimate.curve();
  EXPECT_NEAR(curve.pass_us(5), 0.95 * 15'000, 300);
  EXPECT_GT(curve.pass_us(10), curve.pass_us(8));
  EXPECT_TRUE(std::is_sorted(curve.us.begin(), curve.us.end()));
}

// Planning began from nothing at each start.
TEST(StepCurveEstimate, BeginsWhereAnotherOneEnded) {
  StepCurveEstimate before;
  EXPECT_FALSE(before.state());
  for (int i = 0; i < 400; ++i) {
    const std::int32_t rows = 1 + i * 7 % 8;
    before.add(rows, tiles_us(rows), 1 + i % 3, 265 + 85.0 * (1 + i % 3));
  }
  before.add_prompts(256, 256 * 800.0);
  const StepCurveEstimate after(before.state());
  ASSERT_TRUE(after.known());
  const StepCurve expected = before.curve(), curve = after.curve();
  for (std::int32_t rows = 1; rows <= 2 * StepCurve::kRows; ++rows) {
    EXPECT_NEAR(curve.pass_us(rows), expected.pass_us(rows), 1e-6 * expected.pass_us(rows)) << rows;
  }
  EXPECT_NEAR(curve.drafting.begin_us, expected.drafting.begin_us, 1e-6);
  EXPECT_NEAR(curve.drafting.pass_us, expected.drafting.pass_us, 1e-6);
  EXPECT_EQ(after.state()->ratios, before.state()->ratios);
}

// The first passes of a process touch memory for the first time. What counts after them soon outweighs older times.
TEST(StepCurveEstimate, NewPassesOutweighThoseOfAnEarlierProcess) {
  StepCurveState old;
  old.level_us = 10'000;
  old.drafting = {0, 200};
  old.ratios = {{1, 1}, {8, 2}};
  StepCurveEstimate estimate(old);
  for (int i = 0; i < 8; ++i) estimate.add(1, 80'000, 0, 0);
  EXPECT_EQ(estimate.curve().pass_us(1), 10'000) << "not counted";
  for (int i = 0; i < 24; ++i) estimate.add(i % 2 == 0 ? 1 : 8, i % 2 == 0 ? 8'000 : 10'000, 2, 100);
  EXPECT_NEAR(estimate.curve().pass_us(1), 8'000, 800);
  EXPECT_NEAR(estimate.curve().pass_us(8), 10'000, 1'000);
  for (int i = 0; i < 64; ++i) estimate.add(1, 8'000, 2, 100);
  EXPECT_NEAR(estimate.curve().drafting.us(2), 100, 25);
}

TEST(DraftTimeEstimate, BeginsWithALine) {
  for (const DraftTime line : {DraftTime{265, 85}, DraftTime{0, 200}, DraftTime{400, 0}, DraftTime{}}) {
    const DraftTime begun = DraftTimeEstimate(line).line();
    EXPECT_NEAR(begun.begin_us, line.begin_us, 1e-9);
    EXPECT_NEAR(begun.pass_us, line.pass_us, 1e-9);
  }
}

// Negative control: without pooling, noise would make more rows seem faster than fewer.
TEST(StepCurveEstimate, NoiseNeverMakesMoreRowsFaster) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 60; ++i) estimate.add(1 + i % 6, 10'000 + 1'000 * ((i * 5) % 7), 0, 0);
  const StepCurve curve = estimate.curve();
  EXPECT_TRUE(std::is_sorted(curve.us.begin(), curve.us.end()));
}

TEST(StepCurveEstimate, OneNumberOfRowsIsEnough) {
  StepCurveEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.add(4, 12'000, 0, 0);
  const StepCurve curve = estimate.curve();
  EXPECT_NEAR(curve.pass_us(4), 12'000, 1);
  EXPECT_LE(curve.pass_us(2), 12'000);
  EXPECT_GT(curve.pass_us(2), 11'000);
  EXPECT_GT(curve.pass_us(6), 12'000);
}

}  // namespace
}  // namespace slip
