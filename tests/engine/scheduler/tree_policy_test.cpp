// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/tree_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/speculative/choice_rates.h"

namespace slip {
namespace {

// A pass over 1 to 8 rows takes 10 ms, each row more adds 1 ms; a draft pass takes 100 µs.
StepCurve curve() {
  StepCurve curve;
  for (std::int32_t row = 0; row < StepCurve::kRows; ++row)
    curve.us[static_cast<std::size_t>(row)] = 10'000 + 1'000.0 * std::max(0, row - 7);
  curve.more_row_us = 1'000;
  curve.drafting = {0, 100};
  return curve;
}

TEST(TreePolicy, TheBudgetIsWhatAPassTakesForLittleMoreTime) {
  EXPECT_EQ(rows_within(curve(), 1.0), 8);
  EXPECT_EQ(rows_within(curve(), 1.15), 9);
  EXPECT_EQ(rows_within(curve(), 100), StepCurve::kRows);
}

// AdaServe, section 5.2: d = ⌈B/n⌉ and w = ⌊B/n⌋, within limits.
TEST(TreePolicy, TreesAreDeepAndWideWhereFewSequencesShareTheBudget) {
  const auto expect = [](std::int32_t budget, std::int32_t n, std::int32_t depth, std::int32_t width) {
    const TreeShape shape = tree_shape(budget, n, /*most_width=*/4);
    EXPECT_EQ(shape.depth, depth) << budget << " rows, " << n << " sequences";
    EXPECT_EQ(shape.width, width) << budget << " rows, " << n << " sequences";
  };
  expect(9, 1, 8, 4);
  expect(9, 3, 3, 3);
  expect(9, 4, 3, 2);
  expect(9, 9, 1, 1);
  expect(9, 20, 1, 1);
  expect(9, 0, 1, 1);
}

// 30 ms after its first token a sequence with a target of 10 ms should have three more tokens, and another one when a
// step of 10 ms ends.
TEST(TreePolicy, ASequenceNeedsWhatItsTargetAsksForWhenTheStepEnds) {
  const DeadlineLoad load{.slo = {.tpot_us = 10'000}, .since_us = 30'000, .n_done = 2};
  EXPECT_NEAR(required_tokens(load, 10'000), 2, 1e-9);
  EXPECT_NEAR(required_tokens({.slo = {.tpot_us = 10'000}, .since_us = 30'000, .n_done = 6}, 10'000), -2, 1e-9);
}

std::vector<std::uint8_t> selected(const std::vector<ProposedNode>& nodes, const NodeBudget& budget) {
  NodeSelection selection;
  select_nodes_of_trees(nodes, budget, selection);
  return selection.keep;
}
using Kept = std::vector<std::uint8_t>;

// Chains of .9, .8, .7 and of .5, .25, .1.
const std::vector<ProposedNode> kTwoChains{{0, 0, 0.9}, {0, 1, 0.8},  {0, 2, 0.7},
                                           {1, 0, 0.5}, {1, 1, 0.25}, {1, 2, 0.1}};

TEST(TreePolicy, WithoutTargetsTheLikeliestNodesAreKept) {
  EXPECT_EQ(selected(kTwoChains, {4, 16, {}, 9}), (Kept{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(selected(kTwoChains, {0, 16, {}, 9}), (Kept{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(selected(kTwoChains, {99, 16, {}, 9}), (Kept{1, 1, 1, 1, 1, 1}));
}

// Bug: each step allocated these arrays.
TEST(TreePolicy, ASelectionKeepsItsMemory) {
  NodeSelection selection;
  select_nodes_of_trees(kTwoChains, {3, 16, {0, 1.7}, 9}, selection);
  const auto places = [&] {
    return std::vector<const void*>{selection.keep.data(), selection.tokens.data(), selection.sizes.data(),
                                    selection.most_behind.data()};
  };
  const auto before = places();
  select_nodes_of_trees({}, {3, 16, {}, 9}, selection);
  EXPECT_TRUE(selection.keep.empty());
  select_nodes_of_trees(kTwoChains, {3, 16, {0, 1.4}, 9}, selection);
  EXPECT_EQ(places(), before);
  EXPECT_EQ(selection.keep, (Kept{1, 1, 0, 1, 0, 0})) << "nothing is left of the selections before";
}

TEST(TreePolicy, EachGetsAtMostItsShare) {
  EXPECT_EQ(selected(kTwoChains, {4, 2, {}, 9}), (Kept{1, 1, 0, 1, 1, 0}));
}

// The target adds one token itself: a tree of nodes of .5 and .25 brings 1.75.
TEST(TreePolicy, ASequenceThatIsBehindGetsWhatItNeedsFirst) {
  EXPECT_EQ(selected(kTwoChains, {3, 16, {0, 1.7}, 9}), (Kept{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(selected(kTwoChains, {3, 16, {0, 1.4}, 9}), (Kept{1, 1, 0, 1, 0, 0}));
  EXPECT_EQ(selected(kTwoChains, {3, 16, {0, 0.9}, 9}), (Kept{1, 1, 1, 0, 0, 0}));
}

TEST(TreePolicy, TheMostBehindComesFirst) {
  EXPECT_EQ(selected(kTwoChains, {2, 16, {5, 3}, 9}), (Kept{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(selected(kTwoChains, {2, 16, {3, 5}, 9}), (Kept{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(selected(kTwoChains, {3, 16, {3, 5}, /*most_required=*/1.6}), (Kept{1, 0, 0, 1, 1, 0}))
      << "no step brings five";
}

// The corrections of the printed algorithm: it takes one node too many, and counts a node's own probability.
TEST(TreePolicyNegative, ThePrintedFormWouldExceedTheBudgetAndStopTooSoon) {
  const Kept kept = selected(kTwoChains, {3, 16, {2.8, 0}, 9});
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 1), 3);
  EXPECT_EQ(kept, (Kept{1, 1, 1, 0, 0, 0})) << "1 + .9 + .8 are less than 2.8";
}

std::vector<DraftOutlook> outlooks(std::size_t n) {
  std::vector<DraftOutlook> outlooks(n);
  for (std::size_t i = 0; i < n; ++i) {
    outlooks[i].most = 8;
    outlooks[i].alpha = 0.6;
    outlooks[i].sequence = i;
  }
  return outlooks;
}

TEST(TreePolicy, DraftsToTheDepthOfItsBudget) {
  TreePolicy policy(PolicyKind::kAdaServe, {.tree_width = 2});
  std::vector<DraftOrder> orders;
  policy.choose(outlooks(3), 0, curve(), orders);
  ASSERT_EQ(orders.size(), 3U);
  for (const DraftOrder& order : orders) {
    EXPECT_EQ(order.most, 3);
    EXPECT_GT(order.saved_us, 0);
  }
}

TEST(TreePolicy, AProposalIsAsWideAsItsRequestAllows) {
  const ChoiceRates rates;
  auto two = outlooks(2);  // with a budget of nine rows: four wide
  two[0].rates = two[1].rates = &rates;
  two[1].width = 1;
  TreePolicy policy(PolicyKind::kAdaServe, {.tree_width = 3});
  std::vector<DraftOrder> orders;
  policy.choose(two, 0, curve(), orders);
  EXPECT_EQ(orders[0].width, 3);
  EXPECT_EQ(orders[1].width, 1);
}

TEST(TreePolicy, DecodesPlainlyWhereTheSequencesFillTheBudget) {
  for (const PolicyKind kind : {PolicyKind::kAdaServe, PolicyKind::kEqualGreedy, PolicyKind::kGlobalGreedy}) {
    TreePolicy policy(kind, {.tree_width = 2});
    std::vector<DraftOrder> orders;
    for (const std::size_t n : {9U, 30U}) {
      policy.choose(outlooks(n), 0, curve(), orders);
      for (const DraftOrder& order : orders) EXPECT_EQ(order.most, 0) << policy_name(kind) << ' ' << n;
    }
    policy.choose({}, 0, curve(), orders);
    EXPECT_TRUE(orders.empty());
  }
}

TEST(TreePolicy, ProposesGuessesWhereNoDraftIsReady) {
  auto one = outlooks(1);
  one[0].most = 0;
  one[0].guesses = {.most = 3, .alpha = 0.5, .alpha_deeper = 0.5};
  TreePolicy policy(PolicyKind::kGlobalGreedy, {});
  std::vector<DraftOrder> orders;
  policy.choose(one, 0, curve(), orders);
  EXPECT_TRUE(orders[0].length.guessed);
  EXPECT_EQ(orders[0].most, 3);
  EXPECT_EQ(orders[0].saved_us, 0);
}

TEST(TreePolicy, OnlyAdaServeKnowsTargets) {
  auto two = outlooks(2);
  two[1].deadline = DeadlineLoad{.slo = {.tpot_us = 5'000}, .since_us = 100'000, .n_done = 3};
  for (const PolicyKind kind : {PolicyKind::kAdaServe, PolicyKind::kGlobalGreedy}) {
    TreePolicy policy(kind, {});
    std::vector<DraftOrder> orders;
    policy.choose(two, 0, curve(), orders);
    std::vector<ProposedNode> nodes = kTwoChains;
    policy.select(nodes, 2, /*room=*/3);
    ASSERT_EQ(nodes.size(), 3U);
    const std::size_t preferred = kind == PolicyKind::kAdaServe ? 1 : 0;
    for (const ProposedNode& node : nodes) EXPECT_EQ(node.sequence, preferred);
  }
}

}  // namespace
}  // namespace slip
