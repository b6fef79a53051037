// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/speculative/choice_rates.h"

namespace slip {
namespace {

TEST(FixedPolicy, DraftsAsMuchAsItMay) {
  const ChoiceRates rates;
  DraftOutlook drafted{.most = 3}, guessed{};
  drafted.rates = &rates;
  guessed.guesses.most = 5;
  const auto policy = make_fixed_policy({.tree_width = 3});
  std::vector<DraftOrder> orders;
  policy->choose(std::vector{drafted, guessed, DraftOutlook{}}, /*prompt_rows=*/50, {}, orders);
  ASSERT_EQ(orders.size(), 3U);
  EXPECT_EQ(orders[0].length, (DraftLength{3, false}));
  EXPECT_EQ(orders[0].most, 3);
  EXPECT_EQ(orders[0].width, 3);
  EXPECT_EQ(orders[1].length, (DraftLength{5, true}));
  EXPECT_EQ(orders[1].width, 1) << "guesses have no siblings";
  EXPECT_EQ(orders[2].most, 0);
}

TEST(FixedPolicy, AProposalIsAsWideAsItsRequestAndTheServiceAllow) {
  const ChoiceRates rates;
  const auto policy = make_fixed_policy({.tree_width = 3});
  std::vector<DraftOrder> orders;
  for (const std::int32_t width : {1, 2, 3, 4}) {
    DraftOutlook outlook{.most = 3};
    outlook.rates = &rates;
    outlook.width = width;
    policy->choose(std::vector{outlook}, 0, {}, orders);
    EXPECT_EQ(orders[0].width, std::min(width, 3));
  }
}

TEST(FixedPolicy, KeepsAsManySiblingsAsFit) {
  const auto policy = make_fixed_policy({});
  EXPECT_FALSE(policy->selects_chains());
  std::vector<ProposedNode> nodes{{0, 3, 0.1}, {0, 4, 0.05}};
  policy->select(nodes, 9, 1);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].node, 3);
  policy->select(nodes, 9, -1);
  EXPECT_TRUE(nodes.empty());
}

}  // namespace
}  // namespace slip
