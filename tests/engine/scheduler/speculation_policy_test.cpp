// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation_policy.h"

#include <gtest/gtest.h>

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

TEST(FixedPolicy, KeepsAsManySiblingsAsFit) {
  const auto policy = make_fixed_policy({});
  EXPECT_FALSE(policy->selects_chains());
  std::vector<std::uint8_t> keep;
  policy->select(std::vector<ProposedNode>{{0, 3, 0.1}, {0, 4, 0.05}}, 9, 1, keep);
  EXPECT_EQ(keep, (std::vector<std::uint8_t>{1, 0}));
  policy->select(std::vector<ProposedNode>{{0, 3, 0.1}}, 9, -1, keep);
  EXPECT_EQ(keep, (std::vector<std::uint8_t>{0}));
}

}  // namespace
}  // namespace slip
