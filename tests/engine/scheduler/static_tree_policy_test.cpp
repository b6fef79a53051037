// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/static_tree_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/speculative/draft_runner.h"

namespace slip {
namespace {

// A pass over 1 to `free` rows takes 10 ms, each row more adds 2 ms; a draft pass takes 100 µs.
StepCurve curve(std::int32_t free, double draft_us = 100) {
  StepCurve curve;
  for (std::int32_t row = 0; row < StepCurve::kRows; ++row)
    curve.us[static_cast<std::size_t>(row)] = 10'000 + 2'000.0 * std::max(0, row + 1 - free);
  curve.more_row_us = 2'000;
  curve.drafting = {0, draft_us};
  return curve;
}

struct Chosen {
  LengthChoice choice;
  std::vector<StaticShape> shapes;
};
Chosen choose(const std::vector<TreeOutlook>& outlooks, const StepCurve& curve, std::int32_t prompt_rows = 0) {
  Chosen chosen;
  StaticShapeChooser chooser;
  chosen.choice = chooser.choose(outlooks, prompt_rows, curve, chosen.shapes);
  return chosen;
}
TreeOutlook by_rank(const RankRates& rates, std::int32_t most_depth = 8, std::int32_t width = 2) {
  return {rates, rates[0], most_depth, width};
}

// l = 1 + .8 + .64 + .512 = 2.952 in 10.3 ms. One node less: 2.44 in 10.2 ms; one more: 3.3616 in 12.4 ms. The sibling
// of the first token would bring .2 · .1.
TEST(StaticShapes, AChainWinsWhereTheFirstChoiceIsOftenRight) {
  const Chosen chosen = choose({by_rank({0.8, 0.1})}, curve(4));
  ASSERT_EQ(chosen.shapes.size(), 1U);
  EXPECT_EQ(chosen.shapes[0].nodes, 3);
  EXPECT_EQ(chosen.shapes[0].depth, 3);
  EXPECT_EQ(chosen.shapes[0].width, 1);
  EXPECT_NEAR(chosen.shapes[0].least, 0.512, 1e-9);
  EXPECT_NEAR(chosen.choice.goodput, 2.952 / 10'300, 1e-12);
  EXPECT_NEAR(chosen.choice.saved_us, 2.952 * 10'000 - 10'300, 1e-6);
}

// .5 and below it .25, and beside it .5 · .5: l = 2 in 10.2 ms. A chain of three has l = 1.875 in 10.3 ms.
TEST(StaticShapes, ATreeWinsWhereTheSecondChoiceIsOftenRight) {
  const Chosen chosen = choose({by_rank({0.5, 0.5})}, curve(4));
  EXPECT_EQ(chosen.shapes[0].nodes, 3);
  EXPECT_EQ(chosen.shapes[0].depth, 2);
  EXPECT_EQ(chosen.shapes[0].width, 2);
  EXPECT_NEAR(chosen.choice.goodput, 2.0 / 10'200, 1e-12);
}

// Six nodes are free: .5 and .25; below them .25 and .125, .125 and .0625. What follows the sibling takes a pass of its
// own, as l = 2.3125 in 10.3 ms is worth. Where a pass takes 2 ms it is not.
TEST(StaticShapes, SiblingsAreContinuedWhereThatPaysForItsPass) {
  const StaticShape full = choose({by_rank({0.5, 0.5}, /*most_depth=*/2)}, curve(7)).shapes[0];
  EXPECT_EQ(full.nodes, 6);
  const Chosen dear = choose({by_rank({0.5, 0.5}, /*most_depth=*/2)}, curve(7, /*draft_us=*/2'000));
  EXPECT_EQ(dear.shapes[0].nodes, 4) << "l = 2.125 in 14 ms, against 2.3125 in 16 ms";
  EXPECT_NEAR(dear.choice.goodput, 2.125 / 14'000, 1e-12);
}

// One node brings .05 in a fifth of the time and a pass.
TEST(StaticShapes, NothingIsProposedWhereNoNodePays) {
  const Chosen chosen = choose({by_rank({0.05, 0.05}), by_rank({0.1, 0.05})}, curve(1));
  for (const StaticShape& shape : chosen.shapes) EXPECT_EQ(shape, StaticShape());
  EXPECT_EQ(chosen.choice.saved_us, 0);
  EXPECT_EQ(choose({}, curve(1)).choice.goodput, 0);
}

// SmartSpec's l of a full tree of three choices for each of two places: 1 + P(3) + P(3) P(3).
TEST(StaticShapes, AFullTreeHasTheTokensOfSmartSpec) {
  const RankRates rates{0.5, 0.4, 0.3};
  const auto one_of = [&](int k) {
    double none = 1;
    for (int rank = 0; rank < k; ++rank) none *= 1 - rates[static_cast<std::size_t>(rank)];
    return 1 - none;
  };
  const Chosen chosen = choose({by_rank(rates, /*most_depth=*/2, /*width=*/3)}, curve(StepCurve::kRows, 0));
  EXPECT_EQ(chosen.shapes[0].nodes, 12) << "3 + 3 · 3";
  EXPECT_NEAR(chosen.choice.goodput * 10'000, 1 + one_of(3) + one_of(3) * one_of(3), 1e-9);
}

TEST(StaticShapes, SequencesShareTheRowsByWhatTheirNodesBring) {
  const Chosen chosen = choose({by_rank({0.9}, 8, 1), by_rank({0.3}, 8, 1)}, curve(6));
  EXPECT_EQ(chosen.shapes[0].nodes, 4) << ".9 to .66";
  EXPECT_EQ(chosen.shapes[1].nodes, 0);
}

// Three nodes bring 1.875 tokens in 10.3 ms. Behind three rows of a prompt, one brings 1.5 in 12.1 ms, two 1.75
// in 14.2.
TEST(StaticShapes, RowsOfPromptsTakeFreeRows) {
  EXPECT_EQ(choose({by_rank({0.5}, 8, 1)}, curve(4)).shapes[0].nodes, 3);
  EXPECT_EQ(choose({by_rank({0.5}, 8, 1)}, curve(4), /*prompt_rows=*/3).shapes[0].nodes, 1);
}

TEST(StaticShapes, KeepToWhatASequenceMayPropose) {
  const Chosen chosen = choose({by_rank({0.9, 0.9, 0.9, 0.9}, /*most_depth=*/5, /*width=*/4),
                                by_rank({0.9}, 0),
                                {{0.9}, 0.5, 3, 1, /*guessed=*/true}},
                               curve(StepCurve::kRows, 0));
  EXPECT_EQ(chosen.shapes[0].nodes, kMaxProposalNodes);
  EXPECT_LE(chosen.shapes[0].depth, 5);
  EXPECT_EQ(chosen.shapes[1].nodes, 0);
  EXPECT_EQ(chosen.shapes[2].nodes, 3);
  EXPECT_NEAR(chosen.shapes[2].least, 0.9 * 0.5 * 0.5, 1e-9) << "a later guess has its own rate";
}

// Passes of eight rows read all siblings together; one below another waits for it.
TEST(StaticShapes, PassesReadSiblingsTogether) {
  EXPECT_EQ((TreePasses{3, 0, 0}.count()), 3);
  EXPECT_EQ((TreePasses{3, 1, 5}.count()), 4);
  EXPECT_EQ((TreePasses{3, 2, 2}.count()), 5);
  EXPECT_EQ((TreePasses{3, 1, 9}.count()), 5);
}

// ---- the policy

struct Ordered {
  explicit Ordered(const RankRates& rank_rates, const StepCurve& curve, PolicyOptions options = {.tree_width = 2},
                   bool probe = false)
      : policy(options) {
    DraftOutlook outlook{.most = 8, .alpha = 0.5, .probe = probe};
    outlook.rates = &by_probability;
    outlook.rank_rates = rank_rates;
    outlook.sequence = 3;
    policy.choose(std::vector{outlook}, 0, curve, orders);
  }
  ChoiceRates by_probability;
  StaticTreePolicy policy;
  std::vector<DraftOrder> orders;
};

TEST(StaticTreePolicy, OrdersTheShape) {
  const Ordered ordered({0.5, 0.5}, curve(4));
  const DraftOrder& order = ordered.orders[0];
  EXPECT_EQ(order.most, 2);
  EXPECT_EQ(order.width, 2);
  EXPECT_EQ(order.length, (DraftLength{2, false}));
  ASSERT_NE(order.stop.rates, nullptr);
  EXPECT_TRUE(order.stop.rates->is_by_rank());
  EXPECT_FALSE(order.wants_probability);
  EXPECT_GT(order.saved_us, 0);
  EXPECT_EQ(Ordered({0.5, 0.5}, curve(4), {.tree_width = 1}).orders[0].width, 1);
}

// The whole way: a draft that follows the order proposes the nodes of the shape, and these are verified.
TEST(StaticTreePolicy, VerifiesTheNodesOfTheShapeWhateverTheDraftSays) {
  for (const RankRates& rates :
       {RankRates{0.5, 0.5}, RankRates{0.8, 0.1}, RankRates{0.4, 0.5, 0.4, 0.3}, RankRates{0.3, 0.9, 0.9, 0.9}}) {
    for (const std::int32_t free : {4, 9, 17}) {
      std::vector<std::int32_t> parents;
      for (const double log_q : {std::log(0.05), std::log(0.5), std::log(0.99)}) {
        Ordered ordered(rates, curve(free, /*draft_us=*/10), {.tree_width = 4});
        const DraftOrder& order = ordered.orders[0];
        ASSERT_GT(order.most, 0);
        Siblings siblings;
        for (std::int32_t n = 1; n < order.width; ++n) siblings.add(n);
        Proposal proposal;
        for (std::int32_t i = 0; i < order.most; ++i) proposal.add_to_chain(0, log_q);
        const std::vector<Siblings> of_places(static_cast<std::size_t>(order.most), siblings);
        Branches branches;
        branches.begin(proposal, of_places, order.stop.rates);
        for (std::int32_t at; (at = branches.best_unread(order.most, order.most - 1)) >= 0;) {
          if (branches.node(at).worth * order.stop.next_rate <= order.stop.row_price) break;
          branches.read(at);
          branches.add_children(at, 0, log_q, siblings);
        }
        std::vector<std::int32_t> node_of(branches.nodes().size());
        for (const std::int32_t index : branches.best()) {
          const Branches::Node& node = branches.node(index);
          node_of[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(proposal.size());
          const bool beside_chain = node.parent < Branches::kFirst;
          proposal.add(node.token,
                       beside_chain ? node.parent : node_of[static_cast<std::size_t>(node.parent - Branches::kFirst)],
                       node.log_q);
        }
        std::vector<ProposedNode> nodes;
        list_nodes(proposal, 3, {order.stop.rates, 0.5, 0.5}, nodes);
        std::sort(nodes.begin(), nodes.end());
        ordered.policy.select(nodes, 1, /*room=*/99);
        std::vector<std::int32_t> kept;
        for (const ProposedNode& node : nodes) kept.push_back(node.node);
        std::sort(kept.begin(), kept.end());
        keep_nodes(proposal, kept);
        EXPECT_EQ(std::ssize(proposal.parents), free - 1) << "all rows that cost nothing";
        if (parents.empty()) parents = proposal.parents;
        EXPECT_EQ(proposal.parents, parents) << "no probability changes the shape";
      }
    }
  }
}

TEST(StaticTreePolicy, WhatADraftCouldNotProposeIsNotReplaced) {
  Ordered ordered({0.5, 0.5}, curve(4));  // the shape: .5, .25, .25
  std::vector<ProposedNode> nodes{{3, 0, 0.5}, {3, 2, 0.25}, {3, 3, 0.125}, {7, 0, 0.9}};
  ordered.policy.select(nodes, 1, /*room=*/99);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1].node, 2);
}

TEST(StaticTreePolicy, KeepsWhatThereIsRoomFor) {
  Ordered ordered({0.5, 0.5}, curve(4));
  std::vector<ProposedNode> nodes{{3, 0, 0.5}, {3, 1, 0.25}, {3, 2, 0.25}, {3, 3, 0.25}};
  auto all = nodes;
  ordered.policy.select(all, 1, /*room=*/99);
  EXPECT_EQ(all.size(), 3U) << "as many as the shape has";
  Ordered cramped({0.5, 0.5}, curve(4));
  cramped.policy.select(nodes, 1, /*room=*/2);
  EXPECT_EQ(nodes.size(), 2U);
  cramped.policy.select(nodes, 1, /*room=*/-1);
  EXPECT_TRUE(nodes.empty());
}

TEST(StaticTreePolicy, AProbeMeasuresADraftThatDoesNotPay) {
  EXPECT_EQ(Ordered({0.05, 0.05}, curve(1)).orders[0].most, 0);
  EXPECT_EQ(Ordered({0.05, 0.05}, curve(1), {.tree_width = 2}, /*probe=*/true).orders[0].most, 1);
}

TEST(StaticTreePolicy, ProposesGuessesWhereNoDraftIsReady) {
  DraftOutlook outlook;
  outlook.guesses = {.most = 3, .alpha = 0.9, .alpha_deeper = 0.9};
  StaticTreePolicy policy({.tree_width = 2});
  std::vector<DraftOrder> orders;
  policy.choose(std::vector{outlook}, 0, curve(4), orders);
  EXPECT_EQ(orders[0].length, (DraftLength{3, true}));
  EXPECT_EQ(orders[0].stop.rates, nullptr);
  EXPECT_EQ(orders[0].saved_us, 0);
}

}  // namespace
}  // namespace slip
