// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/goodput_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/scheduler/select.h"
#include "engine/speculative/choice_rates.h"

namespace slip {
namespace {

// 1 to 8 rows take 10 ms, each row more adds 2 ms; a draft pass takes 100 µs.
StepCurve curve() {
  StepCurve curve;
  for (std::int32_t row = 0; row < StepCurve::kRows; ++row)
    curve.us[static_cast<std::size_t>(row)] = 10'000 + 2'000.0 * std::max(0, row - 7);
  curve.more_row_us = 2'000;
  curve.drafting = {0, 100};
  return curve;
}

struct Chosen {
  explicit Chosen(PolicyOptions options, std::int32_t prompt_rows = 0) : policy(options) {
    DraftOutlook outlook{.most = 8, .alpha = 0.6};
    outlook.rates = &rates;
    policy.choose(std::vector{outlook}, prompt_rows, curve(), orders);
  }
  ChoiceRates rates;
  GoodputPolicy policy;
  std::vector<DraftOrder> orders;
};

TEST(GoodputPolicy, FillsTheRowsThatAreNearlyFree) {
  const Chosen chosen({});
  EXPECT_EQ(chosen.orders[0].length, (DraftLength{7, false}));
  EXPECT_EQ(chosen.orders[0].most, 7);
  EXPECT_EQ(chosen.orders[0].width, 1);
  EXPECT_EQ(chosen.orders[0].stop.rates, nullptr);
  EXPECT_FALSE(chosen.orders[0].wants_probability);
  EXPECT_GT(chosen.orders[0].saved_us, 0);
}

TEST(GoodputPolicy, ADraftThatMayStopMayAlsoGrow) {
  const Chosen chosen({.stop_early = true});
  EXPECT_EQ(chosen.orders[0].length.nodes, 7);
  EXPECT_EQ(chosen.orders[0].most, 8);
  EXPECT_EQ(chosen.orders[0].stop.rates, &chosen.rates);
  EXPECT_GT(chosen.orders[0].stop.row_price, 0);
  EXPECT_TRUE(chosen.orders[0].wants_probability);
}

TEST(GoodputPolicy, KeepsSiblingsOnlyInRowsThatPay) {
  Chosen chosen({.tree_width = 2});
  const auto n_kept = [&](std::int32_t rows, std::int32_t room) {
    std::vector<ProposedNode> siblings{{0, 7, 0.1}, {0, 8, 0.05}};
    chosen.policy.select(siblings, rows, room);
    return siblings.size();
  };
  EXPECT_EQ(n_kept(6, 99), 2U);
  EXPECT_EQ(n_kept(7, 99), 1U) << "a ninth row takes a fifth of a pass";
  EXPECT_EQ(n_kept(6, 1), 1U) << "there is no room";
}

// Steps of a sequence with one token of a draft, whose first choice is right in every other one.
class SiblingSteps {
 public:
  // Returns how many siblings are verified in `n` steps.
  int run(int n, bool sibling_is_right) {
    int n_siblings = 0;
    for (int i = 0; i < n; ++i) n_siblings += step(i, sibling_is_right);
    return n_siblings;
  }

 private:
  // A pass takes 10 ms, and half a millisecond for each row.
  static StepCurve curve_of_rows() {
    StepCurve curve;
    for (std::size_t row = 0; row < curve.us.size(); ++row) curve.us[row] = 10'500 + 500.0 * static_cast<double>(row);
    curve.more_row_us = 500;
    return curve;
  }
  int step(int i, bool sibling_is_right) {
    DraftOutlook outlook{.most = 1, .alpha = 0.5};
    outlook.rates = &rates_;
    policy_.choose(std::vector{outlook}, 0, curve_, orders_);
    const double log_q = std::log((i % 10 + 0.5) / 10);
    Proposal proposal;
    proposal.add_to_chain(1, log_q);
    if (orders_[0].width > 1) proposal.add_sibling(0, 2);
    std::vector<ProposedNode> siblings;
    list_siblings(proposal, 0, {&rates_, 0.5, 0.5}, siblings);
    policy_.select(siblings, 2, /*room=*/99);
    const bool first_is_right = i / 10 % 2 == 0;
    rates_.add(log_q, 0, first_is_right);
    if (!first_is_right && !siblings.empty()) rates_.add(log_q, 1, sibling_is_right);
    return static_cast<int>(siblings.size());
  }

  const StepCurve curve_ = curve_of_rows();
  ChoiceRates rates_;
  GoodputPolicy policy_{{.tree_width = 2}};
  std::vector<DraftOrder> orders_;
};

// Regression: siblings that did not pay once were never proposed again, even where they would pay now.
TEST(GoodputPolicy, SiblingsThatDidNotPayAreTriedAgain) {
  SiblingSteps steps;
  EXPECT_GT(steps.run(2'000, false), 0) << "tried at first";
  constexpr int kSteps = 40'000;
  const int n_tried = steps.run(kSteps, false);
  EXPECT_GT(n_tried, 0);
  EXPECT_LE(n_tried, 0.005 * 2 * kSteps) << "of the rows";
  steps.run(10'000, true);
  EXPECT_GT(steps.run(1'000, true), 900);
}

TEST(GoodputPolicy, AProposalIsAsWideAsItsRequestAndTheServiceAllow) {
  const ChoiceRates rates;
  for (const std::int32_t width : {1, 2, 3, 4}) {
    DraftOutlook outlook{.most = 3, .alpha = 0.6};
    outlook.rates = &rates;
    outlook.width = width;
    GoodputPolicy policy({.tree_width = 3});
    std::vector<DraftOrder> orders;
    policy.choose(std::vector{outlook}, 0, curve(), orders);
    EXPECT_EQ(orders[0].width, std::min(width, 3));
  }
}

TEST(GoodputPolicy, RowsOfPromptsMakeDraftsDearer) {
  EXPECT_LT(Chosen({}, /*prompt_rows=*/100).orders[0].length.nodes, 7);
}

// Regression: on a machine where one probe takes longer than what was saved up at most, no draft was ever tried again.
TEST(GoodputPolicy, AProbeThatIsDearComesSeldomButComes) {
  StepCurve slow = curve();
  slow.drafting = {0, 50'000};
  DraftOutlook useless{.most = 8, .alpha = 0.01, .probe = true};
  GoodputPolicy policy({});
  std::vector<DraftOrder> orders;
  int probes = 0;
  constexpr int kSteps = 10'000;
  for (int step = 0; step < kSteps; ++step) {
    policy.choose(std::vector{useless}, 0, slow, orders);
    probes += orders[0].length.nodes;
    policy.add_step(10'000);
  }
  EXPECT_NEAR(probes, kSteps * 0.005 * 10'000 / 50'000, 2);
}

TEST(GoodputPolicy, PromptsAndWhoIsAheadWaitForWhoWouldBeLate) {
  const std::vector<DeadlineLoad> loads{{.slo = {.tpot_us = 12'000}, .since_us = 1'000},
                                        {.n_pending = 500},
                                        {.slo = {.tpot_us = 1'000'000}, .since_us = 1'000, .n_done = 9}};
  const StepForecast forecast{.decode_us = 10'000, .prompt_row_us = 1'000};
  DeadlineLimits limits;
  GoodputPolicy({}).limit_step(loads, forecast, curve(), 256, limits);
  EXPECT_LT(limits.prompt_rows, 256);
  EXPECT_EQ(limits.skipped, (std::vector<std::uint8_t>{0, 0, 1}));
  GoodputPolicy({}).limit_step({}, forecast, curve(), 256, limits);
  EXPECT_EQ(limits.prompt_rows, 256);
  make_policy(PolicyKind::kAdaServe, {})->limit_step(loads, forecast, curve(), 256, limits);
  EXPECT_EQ(limits.prompt_rows, 256);
  EXPECT_EQ(limits.skipped, (std::vector<std::uint8_t>{0, 0, 0}));
}

}  // namespace
}  // namespace slip
