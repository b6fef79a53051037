// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/choice_rates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slip {
namespace {

TEST(ChoiceRates, BeginsWithTheDraftsOwnProbability) {
  const ChoiceRates rates;
  for (const double q : {0.05, 0.35, 0.95}) EXPECT_NEAR(rates.rate(std::log(q), 0), q, 1e-9);
  EXPECT_GT(rates.rate(std::log(0.5), 1), rates.rate(std::log(0.5), 2));
  EXPECT_NEAR(rates.rate(0, 0), 0.95, 1e-9) << "a certain choice";
  EXPECT_NEAR(rates.rate(-INFINITY, 0), 0.05, 1e-9) << "one of no probability";
}

TEST(ChoiceRates, LearnsEachClassAndRankByItself) {
  ChoiceRates rates;
  for (int i = 0; i < 200; ++i) {
    rates.add(std::log(0.42), 0, i % 4 == 0);
    rates.add(std::log(0.48), 1, i % 5 == 0);
  }
  EXPECT_NEAR(rates.rate(std::log(0.45), 0), 0.25, 0.02);
  EXPECT_NEAR(rates.rate(std::log(0.45), 1), 0.2, 0.02);
  EXPECT_NEAR(rates.rate(std::log(0.55), 0), 0.55, 1e-9);
  EXPECT_EQ(rates.rate(std::log(0.45), 2), ChoiceRates().rate(std::log(0.45), 2));
}

// Regression: a second choice whose rate was low once was never proposed again, so its rate stayed low for ever.
TEST(ChoiceRates, AChoiceThatIsNotProposedReturnsToItsPrior) {
  ChoiceRates rates;
  for (int i = 0; i < 20; ++i) rates.add(std::log(0.45), 1, false);
  EXPECT_LT(rates.rate(std::log(0.45), 1), 0.06);
  for (int i = 0; i < 1000; ++i) rates.add(std::log(0.45), 0, true);
  EXPECT_LT(rates.rate(std::log(0.45), 1), 0.06) << "it was not needed";
  for (int i = 0; i < 21 * 256; ++i) rates.add(std::log(0.45), 0, false);
  EXPECT_EQ(rates.rate(std::log(0.45), 1), kPriorRankRates[1]);
}

TEST(ChoiceRates, ByRankTheyLookAtNoProbability) {
  const ChoiceRates rates(RankRates{0.6, 0.3, 0.2, 0.1});
  EXPECT_TRUE(rates.is_by_rank());
  EXPECT_FALSE(ChoiceRates().is_by_rank());
  for (const double q : {0.0, 0.35, 1.0}) {
    EXPECT_EQ(rates.rate(std::log(q), 0), 0.6);
    EXPECT_EQ(rates.rate(std::log(q), 3), 0.1);
  }
  EXPECT_NEAR(rates.most_of_second(), 0.4 * 0.3, 1e-9);
}

TEST(ChoiceRates, TheBestSecondChoiceStandsBesideAnUnlikelyFirstOne) {
  ChoiceRates rates;
  EXPECT_NEAR(rates.most_of_second(), 0.95 * 0.35, 1e-9);
  for (int i = 0; i < 2000; ++i) {
    for (int kind = 0; kind < 10; ++kind) rates.add(std::log((kind + 0.5) / 10), 1, false);
  }
  EXPECT_LT(rates.most_of_second(), 0.01);
}

}  // namespace
}  // namespace slip
