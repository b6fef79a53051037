// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace slip {
namespace {

// Expected tokens of a chain of k, the target's own included (SmartSpec's Ω).
double omega(std::int32_t k, double alpha) {
  double tokens = 0;
  for (std::int32_t depth = 0; depth <= k; ++depth) tokens += std::pow(alpha, depth);
  return tokens;
}

double goodput(const std::vector<DraftOutlook>& outlooks, const std::vector<std::int32_t>& lengths,
               const StepCurve& curve) {
  double tokens = 0;
  std::int32_t rows = 0, depth = 0;
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    tokens += omega(lengths[i], outlooks[i].alpha);
    rows += 1 + lengths[i];
    depth = std::max(depth, lengths[i]);
  }
  return tokens / (curve.pass_us(rows) + curve.drafting.us(depth));
}

std::vector<std::int32_t> chosen(const std::vector<DraftOutlook>& outlooks, const StepCurve& curve,
                                 std::int32_t prompt_rows = 0) {
  std::vector<DraftLength> lengths;
  choose_draft_lengths(outlooks, prompt_rows, curve, lengths);
  std::vector<std::int32_t> nodes;
  for (const DraftLength& length : lengths) {
    EXPECT_FALSE(length.nodes > 0 && length.guessed) << "there are no guesses";
    nodes.push_back(length.nodes);
  }
  return nodes;
}

// Tiles of `tile` rows at `tile_us` each, over `fixed_us`.
StepCurve curve_of(double fixed_us, std::int32_t tile, double tile_us, double depth_us) {
  StepCurve curve;
  for (std::int32_t r = 1; r <= StepCurve::kRows; ++r) {
    const std::int32_t tiles = (r + tile - 1) / tile;
    curve.us[static_cast<std::size_t>(r - 1)] = fixed_us + tile_us * tiles;
  }
  curve.more_row_us = tile_us / tile;
  curve.drafting.pass_us = depth_us;
  return curve;
}

const StepCurve kMemoryBound = curve_of(10'000, 1, 100, 100), kComputeBound = curve_of(9'000, 1, 1'500, 200),
                kTiles = curve_of(2'000, 4, 9'000, 150);
const StepCurve kColdDraft = [] {
  StepCurve curve = curve_of(10'000, 1, 100, 100);
  curve.drafting.begin_us = 2'500;
  return curve;
}();

TEST(DraftLength, IsTheBestOfAllLengths) {
  for (const StepCurve& curve : {kMemoryBound, kComputeBound, kTiles, kColdDraft}) {
    for (int a = 0; a < 10; ++a) {
      for (int b = 0; b < 10; ++b) {
        const std::vector<DraftOutlook> outlooks{{4, a / 10.0}, {4, b / 10.0}};
        const auto lengths = chosen(outlooks, curve);
        const double best = goodput(outlooks, lengths, curve);
        for (std::int32_t i = 0; i <= 4; ++i) {
          for (std::int32_t j = 0; j <= 4; ++j) EXPECT_GE(best * (1 + 1e-9), goodput(outlooks, {i, j}, curve));
        }
      }
    }
  }
}

TEST(DraftLength, TellsWhatDraftingSaves) {
  std::vector<DraftLength> lengths;
  const auto saved = [&](const std::vector<DraftOutlook>& outlooks) {
    return choose_draft_lengths(outlooks, 0, kMemoryBound, lengths).saved_us;
  };
  EXPECT_EQ(saved({{8, 0.01}}), 0) << "nothing is drafted";
  const double of_one = saved({{8, 0.8}});
  double tokens = 0;
  for (std::int32_t depth = 0; depth <= lengths[0].nodes; ++depth) tokens += std::pow(0.8, depth);
  const double drafted_us = kMemoryBound.pass_us(1 + lengths[0].nodes) + kMemoryBound.drafting.us(lengths[0].nodes);
  EXPECT_NEAR(of_one, tokens * kMemoryBound.pass_us(1) - drafted_us, 1e-6);
  DraftOutlook guesses{8, 0.8};
  guesses.guesses = {8, 0.8, 0.8};
  EXPECT_EQ(saved({guesses}), 0) << "guesses are as good, and take no pass";
}

// 16 sequences that each proposed eight tokens made steps of 144 rows, which no curve is learned from. The service
// stayed so, at less than half of the speed of plain decoding.
TEST(DraftLength, StepsAreMeasuredFromTheStart) {
  EXPECT_EQ(unmeasured_draft_length(1), 1);
  EXPECT_EQ(unmeasured_draft_length(16), 1);
  EXPECT_EQ(unmeasured_draft_length(StepCurve::kRows), 0);
  for (std::int32_t n = 1; n <= StepCurve::kRows; ++n) {
    ASSERT_LE(n * (1 + unmeasured_draft_length(n)), StepCurve::kRows);
  }
}

// The shipped base draft accepts 1 % of sql: every refused token costs time.
TEST(DraftLength, ADraftThatDoesNotPayIsNotUsed) {
  EXPECT_EQ(chosen({{3, 0.01}}, kComputeBound), std::vector<std::int32_t>{0});
  EXPECT_EQ(chosen({{3, 0.01}, {3, 0.8}}, kComputeBound)[0], 0);
  EXPECT_GT(chosen({{3, 0.01}, {3, 0.8}}, kComputeBound)[1], 0);
}

// A step pays for its deepest proposal. A poor draft alone, or beside sequences that draft nothing, costs a drafting
// pass of its own. Beside a draft that goes as deep anyway, it costs only rows.
TEST(DraftLength, ADepthIsPaidOnce) {
  StepCurve flat;
  flat.us.fill(10'000);
  flat.drafting.pass_us = 600;
  EXPECT_EQ(chosen({{3, 0.1}, {3, 0.0}}, flat), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(chosen({{3, 0.1}, {3, 0.7}}, flat)[1], 3);
  EXPECT_GE(chosen({{3, 0.1}, {3, 0.7}}, flat)[0], 1);
}

// What a step pays once, whatever its depth, makes it draft deep or not at all.
TEST(DraftLength, ADearFirstPassMakesProposalsLongOrNone) {
  StepCurve flat;
  flat.us.fill(10'000);
  flat.drafting.begin_us = 2'000;
  flat.drafting.pass_us = 100;
  EXPECT_EQ(chosen({{8, 0.15}}, flat)[0], 0);
  EXPECT_GE(chosen({{8, 0.4}}, flat)[0], 4);
  StepCurve even = flat;  // the same time at depth 1, told as a price of each depth
  even.drafting.begin_us = 0;
  even.drafting.pass_us = 2'100;
  EXPECT_EQ(chosen({{8, 0.4}}, even)[0], 1);
}

TEST(DraftLength, GrowsWithAcceptanceAndShrinksWithLoadWhereRowsCost) {
  std::int32_t before = 0;
  for (int a = 0; a <= 9; ++a) {
    const std::int32_t length = chosen({{8, a / 10.0}}, kComputeBound)[0];
    EXPECT_GE(length, before);
    before = length;
  }
  EXPECT_GT(before, 3);
  const auto alone = chosen({{8, 0.6}}, kComputeBound)[0];
  const auto crowded = chosen(std::vector<DraftOutlook>(16, {8, 0.6}), kComputeBound)[0];
  EXPECT_LT(crowded, alone);
}

TEST(DraftLength, KeepsToWhatASequenceMayPropose) {
  EXPECT_EQ(chosen({{2, 0.95}}, kMemoryBound), std::vector<std::int32_t>{2});
  EXPECT_EQ(chosen({{0, 0.95}}, kMemoryBound), std::vector<std::int32_t>{0});
  EXPECT_TRUE(chosen({}, kMemoryBound).empty());
}

// With two sequences: two further rows cost nothing, a fifth row doubles the time.
TEST(DraftLength, FillsATileAndStopsThere) {
  EXPECT_EQ(chosen({{3, 0.4}, {3, 0.4}}, kTiles), (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(chosen({{3, 0.1}, {3, 0.5}}, kTiles), (std::vector<std::int32_t>{0, 2}));
}

TEST(AcceptanceEstimate, FollowsTheTrafficAndTriesANewVersion) {
  AcceptanceEstimate estimate;
  EXPECT_NEAR(estimate.alpha(1), 0.5, 1e-9) << "before anything is known";
  for (int i = 0; i < 200; ++i) estimate.add(1, 0, true);
  EXPECT_LT(estimate.alpha(1), 0.05);
  EXPECT_GT(estimate.alpha(2), 0.25);
  for (int i = 0; i < 60; ++i) estimate.add(2, 2, true);
  EXPECT_GT(estimate.alpha(2), 0.95);
  EXPECT_NEAR(estimate.alpha_deeper(2), 0.5, 0.03);
}

TEST(AcceptanceEstimate, FirstAndFurtherTokensHaveTheirOwnRates) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 200; ++i) estimate.add(1, i % 10 == 0 ? 0 : i % 2 == 0 ? 1 : 3, i % 2 == 0);
  EXPECT_NEAR(estimate.alpha(1), 0.9, 0.05);
  EXPECT_NEAR(estimate.alpha_deeper(1), 0.72, 0.05);  // two of two, or the first of them refused
  AcceptanceEstimate fresh;
  fresh.add(1, 0, true);
  EXPECT_EQ(fresh.alpha_deeper(1), fresh.alpha(1));  // nothing is known of them: as the first
}

TEST(DraftLength, AChainEndsWhereFurtherTokensDoNotPay) {
  const DraftOutlook lasting{.most = 8, .alpha = 0.9}, ending{.most = 8, .alpha = 0.9, .alpha_deeper = 0.2};
  EXPECT_GT(chosen({lasting}, kMemoryBound)[0], 6);
  EXPECT_LE(chosen({ending}, kMemoryBound)[0], 3);
  EXPECT_GE(chosen({ending}, kMemoryBound)[0], 1);
}

// ---- guesses instead of draft passes ----

std::vector<DraftLength> chosen_of_both(const std::vector<DraftOutlook>& outlooks, const StepCurve& curve) {
  std::vector<DraftLength> lengths;
  choose_draft_lengths(outlooks, 0, curve, lengths);
  return lengths;
}

DraftOutlook both(double alpha, double of_guesses, std::int32_t n_guesses = 8) {
  DraftOutlook outlook{.most = 8, .alpha = alpha};
  outlook.guesses = {n_guesses, of_guesses, of_guesses};
  return outlook;
}

TEST(DraftLength, GuessesAreProposedWhereADraftPassDoesNotPay) {
  StepCurve dear = kMemoryBound, cheap = kMemoryBound;
  dear.drafting.pass_us = 4'000;
  cheap.drafting.pass_us = 10;
  EXPECT_TRUE(chosen_of_both({both(0.7, 0.6)}, dear)[0].guessed);
  EXPECT_GT(chosen_of_both({both(0.7, 0.6)}, dear)[0].nodes, 1);
  EXPECT_FALSE(chosen_of_both({both(0.7, 0.6)}, cheap)[0].guessed);
  EXPECT_FALSE(chosen_of_both({both(0.9, 0.1)}, dear)[0].guessed) << "a good draft pays its passes";
  EXPECT_TRUE(chosen_of_both({both(0.5, 0.9)}, cheap)[0].guessed);
  EXPECT_FALSE(chosen_of_both({both(0.9, 0.9, /*n_guesses=*/1)}, cheap)[0].guessed) << "one guess is a short chain";
}

TEST(DraftLength, ASequenceWithoutADraftTakesItsGuesses) {
  DraftOutlook outlook;
  outlook.guesses = {3, 0.9, 0.9};
  EXPECT_EQ(chosen_of_both({outlook}, kMemoryBound)[0], (DraftLength{3, true}));
  const auto beside = chosen_of_both({outlook, {8, 0.9}}, kMemoryBound);
  EXPECT_EQ(beside[0], (DraftLength{3, true}));
  EXPECT_FALSE(beside[1].guessed);
  EXPECT_GT(beside[1].nodes, 3);
}

TEST(DraftLength, TheChoiceIsAtLeastAsGoodAsEitherAlone) {
  for (const StepCurve& curve : {kMemoryBound, kComputeBound, kTiles}) {
    for (int a = 0; a < 10; a += 3) {
      for (int b = 0; b < 10; b += 3) {
        std::vector<DraftOutlook> outlooks{both(a / 10.0, b / 10.0), both(b / 10.0, a / 10.0)}, drafts = outlooks,
                                                                                                guesses = outlooks;
        for (DraftOutlook& outlook : drafts) outlook.guesses = {};
        for (DraftOutlook& outlook : guesses) outlook.most = 0;
        std::vector<DraftLength> lengths;
        const double best = choose_draft_lengths(outlooks, 0, curve, lengths).goodput;
        EXPECT_GE(best, choose_draft_lengths(drafts, 0, curve, lengths).goodput);
        EXPECT_GE(best, choose_draft_lengths(guesses, 0, curve, lengths).goodput);
      }
    }
  }
}

// A prompt makes a step long, and its tokens few for its time. They must not look dearer than those of other steps.
TEST(DraftLength, ATokenCostsTheSameBesideAPrompt) {
  const std::vector<DraftOutlook> poor(4, DraftOutlook{8, 0.3});
  const double price = goodput(poor, chosen(poor, kComputeBound), kComputeBound);
  ASSERT_EQ(chosen(poor, kComputeBound), std::vector<std::int32_t>(4, 0));
  EXPECT_EQ(chosen(poor, kComputeBound, 100), std::vector<std::int32_t>(4, 2)) << "by the step's own goodput";
  std::vector<DraftLength> lengths;
  const LengthChoice choice = choose_draft_lengths(poor, 100, kComputeBound, lengths, price);
  for (const DraftLength& length : lengths) EXPECT_EQ(length.nodes, 0);
  EXPECT_NEAR(choice.goodput, 4 / kComputeBound.pass_us(104), 1e-9);
  EXPECT_EQ(choice.saved_us, 0);
  const std::vector<DraftOutlook> good(4, DraftOutlook{8, 0.9});
  EXPECT_GT(choose_draft_lengths(good, 100, kMemoryBound, lengths, 4e-4).saved_us, 0);
  EXPECT_EQ(lengths, std::vector<DraftLength>(4, DraftLength{8, false}));
}

// What is not proposed beside a prompt comes later: beside the next prompt for a row's time, else for its share of a
// whole step.
TEST(PriceBesidePrompts, IsThatOfALaterStep) {
  const std::vector<DraftOutlook> outlooks(4, DraftOutlook{8, 0.8});
  std::vector<DraftLength> lengths;
  const auto price = [&](double prompt_share) {
    return price_beside_prompts(outlooks, 100, prompt_share, kComputeBound, lengths);
  };
  const auto drafted = [&](double prompt_share) {
    choose_draft_lengths(outlooks, 100, kComputeBound, lengths, price(prompt_share));
    return lengths[0].nodes;
  };
  EXPECT_NEAR(price(1), 1 / 1'500.0, 1e-12);
  const double alone = goodput(outlooks, chosen(outlooks, kComputeBound), kComputeBound);
  EXPECT_NEAR(price(0), alone, 1e-12);
  EXPECT_NEAR(1 / price(0.5), (1'500 + 1 / alone) / 2, 1e-9);
  EXPECT_EQ(drafted(1), 0);
  EXPECT_GT(drafted(0), 0);
}

TEST(AddProbes, AProbeAsksTheDraft) {
  DraftOutlook outlook = both(0.0, 0.9);
  auto lengths = chosen_of_both({outlook}, kMemoryBound);
  EXPECT_TRUE(lengths[0].guessed);
  EXPECT_EQ(add_probes(std::vector{outlook}, 0, kMemoryBound, 1e6, lengths).spent_us, 0);
  EXPECT_TRUE(lengths[0].guessed) << "no probe is due";
  outlook.probe = true;
  const double probe_us = add_probes(std::vector{outlook}, 0, kMemoryBound, 1e6, lengths).spent_us;
  EXPECT_EQ(lengths[0], (DraftLength{1, false}));
  EXPECT_NEAR(probe_us, kMemoryBound.drafting.us(1), 1e-9) << "one node takes the place of longer guesses";
  outlook.most = 0;
  lengths = chosen_of_both({outlook}, kMemoryBound);
  EXPECT_EQ(add_probes(std::vector{outlook}, 0, kMemoryBound, 1e6, lengths).spent_us, 0) << "it has no draft";
}

// On AMX a probe beside sixteen sequences begins a second tile of rows: 14 % of a pass, every other step.
TEST(AddProbes, AProbeThatIsTooDearWaits) {
  const StepCurve curve = curve_of(1'000, 16, 9'000, 100);
  double refused_us = 0;
  const auto probed = [&](std::size_t n, double allowance_us) {
    const std::vector<DraftOutlook> outlooks(n, DraftOutlook{.most = 8, .alpha = 0.01, .probe = true});
    std::vector<DraftLength> lengths(n);
    const ProbeTimes times = add_probes(outlooks, 0, curve, allowance_us, lengths);
    EXPECT_LE(times.spent_us, allowance_us);
    refused_us = times.refused_us;
    return std::count(lengths.begin(), lengths.end(), DraftLength{1, false});
  };
  EXPECT_EQ(probed(16, 9'000), 0);
  EXPECT_NEAR(refused_us, 9'100, 1e-9);
  EXPECT_EQ(probed(16, 9'100), 16) << "one begins the tile, all others are free";
  EXPECT_EQ(probed(8, 50), 0);
  EXPECT_EQ(probed(8, 100), 8);
  EXPECT_EQ(probed(12, 100), 4);
}

TEST(AcceptanceEstimate, ProbesNowAndThen) {
  AcceptanceEstimate estimate;
  int probes = 0;
  for (int i = 0; i < 320; ++i) probes += estimate.is_probe() ? 1 : 0;
  EXPECT_EQ(probes, 10);
}

}  // namespace
}  // namespace slip
