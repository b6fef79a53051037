// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace slip {
namespace {

Proposal tree() {
  Proposal proposal;
  proposal.tokens = {1, 2, 3, 4};
  proposal.parents = {-1, -1, 0, 2};
  proposal.path_logprob = {-1, -2, -3, -4};
  proposal.proposed_by.resize(4);
  proposal.q.resize(4);
  return proposal;
}

TEST(Select, KeepsAProposalThatKeptToItsPlan) {
  Proposal proposal = tree();
  select_nodes(proposal, 4);
  EXPECT_EQ(proposal.tokens, tree().tokens);
}

TEST(Select, PrunesToATreeAgain) {
  Proposal proposal = tree();
  select_nodes(proposal, 3);
  EXPECT_EQ(proposal.tokens, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(proposal.parents, (std::vector<std::int32_t>{-1, -1, 0}));
  EXPECT_EQ(proposal.path_logprob.size(), 3U);
  EXPECT_EQ(proposal.proposed_by.size(), 3U);
  EXPECT_EQ(proposal.q.size(), 3U);
  select_nodes(proposal, -1);
  EXPECT_EQ(proposal.size(), 0U);
}

// ---- siblings

// A chain of three, to which the draft gave .45, .85 and .35; the second choices of all, and a third choice of the
// first.
Proposal chain_with_siblings() {
  Proposal proposal;
  proposal.add_to_chain(1, std::log(0.45));
  proposal.add_to_chain(2, std::log(0.85));
  proposal.add_to_chain(3, std::log(0.35));
  for (const std::int32_t place : {0, 1, 2}) proposal.add_sibling(place, 11 + place);
  proposal.add_sibling(0, 21);
  return proposal;
}

std::vector<ProposedNode> siblings_of(const Proposal& proposal, const ChoiceRates& rates) {
  std::vector<ProposedNode> siblings;
  list_siblings(proposal, 7, {.rates = &rates}, siblings);
  return siblings;
}

TEST(SelectSiblings, AreExpectedWhereTheirPlaceIsReachedAndEarlierSiblingsAreWrong) {
  const ChoiceRates rates;
  const auto siblings = siblings_of(chain_with_siblings(), rates);
  ASSERT_EQ(siblings.size(), 4U);
  const auto right = [&](double q, std::int32_t rank) { return rates.rate(std::log(q), rank); };
  const double first = right(0.45, 0), second = first * right(0.85, 0);
  EXPECT_NEAR(siblings[0].tokens, (1 - first) * right(0.45, 1), 1e-9);
  EXPECT_NEAR(siblings[1].tokens, first * (1 - right(0.85, 0)) * right(0.85, 1), 1e-9);
  EXPECT_NEAR(siblings[2].tokens, second * (1 - right(0.35, 0)) * right(0.35, 1), 1e-9);
  EXPECT_NEAR(siblings[3].tokens, (1 - first) * (1 - right(0.45, 1)) * right(0.45, 2), 1e-9);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(siblings[i].sequence, 7U);
    EXPECT_EQ(siblings[i].node, static_cast<std::int32_t>(3 + i));
  }
}

TEST(SelectSiblings, NoneComesBeforeAnEarlierSibling) {
  ChoiceRates rates;
  for (int i = 0; i < 500; ++i) {
    rates.add(std::log(0.45), 1, i % 20 == 0);
    rates.add(std::log(0.45), 2, i % 2 == 0);
  }
  auto siblings = siblings_of(chain_with_siblings(), rates);
  std::sort(siblings.begin(), siblings.end());
  const auto place_of = [&](std::int32_t node) {
    return std::find_if(siblings.begin(), siblings.end(), [&](const ProposedNode& one) { return one.node == node; });
  };
  EXPECT_LT(place_of(3), place_of(6));
}

// After the first token's sibling the draft gave .75, with a sibling.
Proposal tree_with_a_branch() {
  Proposal proposal = chain_with_siblings();
  proposal.add(31, /*parent=*/3, std::log(0.75));
  proposal.add(32, /*parent=*/3, 0);
  return proposal;
}

TEST(SelectSiblings, WhatFollowsASiblingIsReachedThroughIt) {
  const ChoiceRates rates;
  const auto nodes = siblings_of(tree_with_a_branch(), rates);
  ASSERT_EQ(nodes.size(), 6U);
  const double first = rates.rate(std::log(0.75), 0), second = rates.rate(std::log(0.75), 1);
  EXPECT_NEAR(nodes[4].tokens, nodes[0].tokens * first, 1e-9);
  EXPECT_NEAR(nodes[5].tokens, nodes[0].tokens * (1 - first) * second, 1e-9);
}

TEST(SelectSiblings, ABranchKeepsItsPlaceInTheTree) {
  Proposal proposal = tree_with_a_branch();
  const std::vector<std::int32_t> kept{0, 1, 2, 3, 5, 7, 8};
  keep_nodes(proposal, kept);
  EXPECT_EQ(proposal.tokens, (std::vector<std::int32_t>{1, 2, 3, 11, 13, 31, 32}));
  EXPECT_EQ(proposal.parents, (std::vector<std::int32_t>{-1, 0, 1, -1, 1, 3, 3}));
  EXPECT_EQ(proposal.rank_of(6), 1);
  EXPECT_NEAR(proposal.log_q(5), std::log(0.75), 1e-6);
}

TEST(SelectNodes, KeepsWhatProposedEachNode) {
  Proposal proposal;
  proposal.add_to_chain(1, 0);
  proposal.add_to_chain(2, 0, ProposedBy::kPromptLookup);
  proposal.add_to_chain(3, 0);
  proposal.add(4, /*parent=*/-1, 0, ProposedBy::kPromptLookup);
  keep_nodes(proposal, std::vector<std::int32_t>{0, 1, 3});
  EXPECT_EQ(proposal.proposed_by,
            (std::vector<ProposedBy>{ProposedBy::kDraft, ProposedBy::kPromptLookup, ProposedBy::kPromptLookup}));
  proposal.clear();
  EXPECT_TRUE(proposal.proposed_by.empty());
}

TEST(SelectNodes, AChainMayLoseItsEndAndKeepItsSiblings) {
  Proposal proposal = tree_with_a_branch();
  keep_nodes(proposal, std::vector<std::int32_t>{0, 3, 7});
  EXPECT_EQ(proposal.tokens, (std::vector<std::int32_t>{1, 11, 31}));
  EXPECT_EQ(proposal.parents, (std::vector<std::int32_t>{-1, -1, 1}));
  keep_nodes(proposal, {});
  EXPECT_EQ(proposal.size(), 0U);
}

TEST(SelectNodes, AListOfAllHasNoNodeBeforeItsParentOrAnEarlierSibling) {
  ChoiceRates rates;
  for (int i = 0; i < 500; ++i) {
    rates.add(std::log(0.45), 0, i % 20 == 0);
    rates.add(std::log(0.45), 1, i % 2 == 0);
  }
  const Proposal proposal = tree_with_a_branch();
  std::vector<ProposedNode> nodes;
  list_nodes(proposal, 0, {.rates = &rates}, nodes);
  ASSERT_EQ(nodes.size(), proposal.size());
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::int32_t> seen;
  for (const ProposedNode& one : nodes) {
    const std::int32_t parent = proposal.parents[static_cast<std::size_t>(one.node)];
    EXPECT_TRUE(parent < 0 || std::count(seen.begin(), seen.end(), parent) == 1) << one.node;
    const auto earlier = std::count_if(seen.begin(), seen.end(), [&](std::int32_t other) {
      return proposal.parents[static_cast<std::size_t>(other)] == parent;
    });
    EXPECT_EQ(earlier, proposal.rank_of(one.node)) << one.node;
    seen.push_back(one.node);
  }
}

// Whether a token that was drawn from the draft is verified must not depend on its own probability (StopRule).
TEST(SelectNodes, ASampledTokenCountsByWhatComesBeforeIt) {
  const ChoiceRates rates;
  const auto tokens_of = [&](double q, DrawMethod method) {
    Proposal proposal;
    proposal.draw_method = method;
    proposal.add_to_chain(1, std::log(0.6));
    proposal.add_to_chain(2, std::log(q));
    proposal.add_to_chain(3, std::log(0.5));
    std::vector<ProposedNode> nodes;
    list_nodes(proposal, 0, {&rates, 0.7, 0.4}, nodes);
    return std::vector{nodes[0].tokens, nodes[1].tokens, nodes[2].tokens};
  };
  const auto likely = tokens_of(0.9, DrawMethod::kSampled), unlikely = tokens_of(0.1, DrawMethod::kSampled);
  EXPECT_NEAR(likely[0], 0.7, 1e-9);
  EXPECT_EQ(likely[1], unlikely[1]);
  EXPECT_GT(likely[2], unlikely[2]) << "it comes after the token";
  EXPECT_GT(tokens_of(0.9, DrawMethod::kGumbel)[1], tokens_of(0.1, DrawMethod::kGumbel)[1]);
}

// Rates by rank look at no token, so a sampled node counts by them, wherever it is.
TEST(SelectNodes, ByRankASampledTreeHasOneOrder) {
  const ChoiceRates by_rank(RankRates{0.6, 0.5, 0.25, 0});
  const auto tokens_of = [&](double q) {
    Proposal proposal;
    proposal.draw_method = DrawMethod::kSampled;
    proposal.add_to_chain(1, std::log(q));
    proposal.add_to_chain(2, std::log(1 - q));
    proposal.add_sibling(0, 11);
    proposal.add(21, /*parent=*/2, std::log(q));
    std::vector<ProposedNode> nodes;
    list_nodes(proposal, 0, {&by_rank, 0.9, 0.9}, nodes);
    std::vector<double> tokens;
    for (const ProposedNode& node : nodes) tokens.push_back(node.tokens);
    return tokens;
  };
  const auto tokens = tokens_of(0.3);
  EXPECT_EQ(tokens, tokens_of(0.8));
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_NEAR(tokens[0], 0.6, 1e-9);
  EXPECT_NEAR(tokens[1], 0.36, 1e-9);
  EXPECT_NEAR(tokens[2], 0.4 * 0.5, 1e-9);
  EXPECT_NEAR(tokens[3], 0.2 * 0.6, 1e-9);
}

// By other rates what follows a sampled sibling counts by what comes before it, as a chain's token does.
TEST(SelectNodes, WhatFollowsASampledSiblingIsNotLookedAt) {
  const ChoiceRates rates;
  const auto last_of = [&](double q) {
    Proposal proposal;
    proposal.draw_method = DrawMethod::kSampled;
    proposal.add_to_chain(1, std::log(0.6));
    proposal.add_sibling(0, 11);
    proposal.add(21, /*parent=*/1, std::log(q));
    std::vector<ProposedNode> nodes;
    list_nodes(proposal, 0, {&rates, 0.7, 0.4}, nodes);
    return nodes[2].tokens;
  };
  EXPECT_EQ(last_of(0.1), last_of(0.9));
}

TEST(SelectNodes, ALimitCutsTheEndOfASequencesOrder) {
  std::vector<ProposedNode> nodes{{0, 0, 0.9}, {1, 0, 0.8}, {0, 1, 0.7}, {0, 2, 0.6}, {2, 0, 0.5}, {1, 1, 0.4}};
  std::vector<std::int32_t> most{2, 3, -1};
  limit_nodes(nodes, most);
  const auto is = [&](std::size_t i, std::size_t sequence, std::int32_t node) {
    return nodes[i].sequence == sequence && nodes[i].node == node;
  };
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_TRUE(is(0, 0, 0) && is(1, 1, 0) && is(2, 0, 1) && is(3, 1, 1));
  EXPECT_EQ(most, (std::vector<std::int32_t>{0, 1, -1}));
}

// Nodes of a tree that a limit of `most` nodes keeps.
std::vector<std::int32_t> within(const Proposal& proposal, std::int32_t most, const ChoiceRates& rates) {
  std::vector<ProposedNode> nodes;
  list_nodes(proposal, 0, {&rates, 0.7, 0.4}, nodes);
  std::sort(nodes.begin(), nodes.end());
  limit_nodes(nodes, std::span(&most, 1));
  std::vector<std::int32_t> kept;
  for (const ProposedNode& one : nodes) kept.push_back(one.node);
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(SelectNodes, EveryLimitKeepsATree) {
  const ChoiceRates rates;
  const Proposal proposal = tree_with_a_branch();
  for (std::int32_t most = 0; most <= static_cast<std::int32_t>(proposal.size()) + 1; ++most) {
    const auto kept = within(proposal, most, rates);
    EXPECT_EQ(std::ssize(kept), std::min<std::ptrdiff_t>(most, std::ssize(proposal.tokens)));
    for (const std::int32_t node : kept) {
      const std::int32_t parent = proposal.parents[static_cast<std::size_t>(node)];
      EXPECT_TRUE(parent < 0 || std::binary_search(kept.begin(), kept.end(), parent)) << node;
      for (std::int32_t earlier = 0; earlier < node; ++earlier) {
        if (proposal.parents[static_cast<std::size_t>(earlier)] != parent) continue;
        EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), earlier)) << node;
      }
    }
  }
}

// A sampled node that a limit drops because its own token is unlikely would bias the answers.
TEST(SelectNodes, ALimitDropsNoSampledTokenForItsOwnProbability) {
  const ChoiceRates rates;
  const auto tree_of = [](std::size_t changed, double q) {
    Proposal proposal;
    proposal.draw_method = DrawMethod::kSampled;
    const double likely[] = {0.6, 0.7, 0.5};
    for (std::size_t i = 0; i < 3; ++i) {
      proposal.add_to_chain(static_cast<std::int32_t>(i), std::log(i == changed ? q : likely[i]));
    }
    for (const std::int32_t place : {0, 1, 2}) proposal.add_sibling(place, 11 + place);
    return proposal;
  };
  for (std::size_t changed = 0; changed < 3; ++changed) {
    for (std::int32_t most = 1; most <= 6; ++most) {
      const auto keeps = [&](double q) {
        const auto kept = within(tree_of(changed, q), most, rates);
        return std::binary_search(kept.begin(), kept.end(), static_cast<std::int32_t>(changed));
      };
      for (const double q : {0.02, 0.3, 0.99}) EXPECT_EQ(keeps(q), keeps(0.6)) << changed << ' ' << most << ' ' << q;
    }
  }
}

TEST(SelectNodes, GuessesCountByTheRateOfTheirKind) {
  Proposal proposal;
  for (const std::int32_t token : {1, 2, 3}) proposal.add_to_chain(token, 0);
  std::vector<ProposedNode> nodes;
  list_nodes(proposal, 4, {nullptr, 0.8, 0.5}, nodes);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_NEAR(nodes[0].tokens, 0.8, 1e-9);
  EXPECT_NEAR(nodes[2].tokens, 0.2, 1e-9);
}

TEST(SelectSiblings, AChainHasNone) {
  Proposal chain = chain_with_siblings();
  select_nodes(chain, 3);
  EXPECT_TRUE(siblings_of(chain, {}).empty());
}

// Passes of 4, 8, 12 … rows take 1, 2, 3 … ms.
StepPrice tiles(double goodput) {
  StepPrice price;
  price.goodput = goodput;
  for (std::size_t row = 0; row < price.curve.us.size(); ++row) {
    const std::size_t tiles = 1 + row / 4;
    price.curve.us[row] = 1000.0 * static_cast<double>(tiles);
  }
  price.curve.more_row_us = 250;
  return price;
}

TEST(SelectSiblings, PayIfTheyAddMoreThanTheirTimeWouldElsewhere) {
  const std::vector<ProposedNode> siblings{{0, 5, 0.3}, {0, 6, 0.25}, {1, 4, 0.2}, {1, 5, 0.1}, {0, 7, 0.05}};
  EXPECT_EQ(count_paying(siblings, tiles(0.001), 2, 100), 2U) << "the rows of the same tile are free";
  EXPECT_EQ(count_paying(siblings, tiles(0.0005), 4, 100), 4U) << "a tile costs half a token, four bring .85";
  EXPECT_EQ(count_paying(siblings, tiles(0.0008), 4, 100), 4U);
  EXPECT_EQ(count_paying(siblings, tiles(0.001), 4, 100), 0U) << "a tile costs one token";
  EXPECT_EQ(count_paying(siblings, tiles(0.0001), 4, 100), 4U) << "the fifth would begin a tile for .05";
  EXPECT_EQ(count_paying(siblings, tiles(0.0001), 4, 3), 3U) << "there is no room for more";
  EXPECT_EQ(count_paying(siblings, tiles(0.0001), 4, -1), 0U);
  EXPECT_EQ(count_paying({}, tiles(0.0001), 4, 100), 0U);
}

TEST(SelectSiblings, TheOthersGoWithTheirDistributions) {
  Proposal proposal = chain_with_siblings();
  for (std::int32_t i = 0; i < 7; ++i) proposal.add_q({{i}, {1.0}});
  const std::vector<std::int32_t> kept{0, 1, 2, 4, 6};
  keep_nodes(proposal, kept);
  EXPECT_EQ(proposal.tokens, (std::vector<std::int32_t>{1, 2, 3, 12, 21}));
  EXPECT_EQ(proposal.parents, (std::vector<std::int32_t>{-1, 0, 1, 0, -1}));
  ASSERT_EQ(proposal.q.size(), 5U);
  EXPECT_EQ(proposal.q[3].ids, std::vector<std::int32_t>{4});
  EXPECT_EQ(proposal.q[4].ids, std::vector<std::int32_t>{6});
  EXPECT_EQ(proposal.spare_q.size(), 2U) << "their memory is kept";
  EXPECT_EQ(proposal.rank_of(4), 1);
  keep_nodes(proposal, std::vector<std::int32_t>{0, 1, 2});
  EXPECT_EQ(proposal.tokens, (std::vector<std::int32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace slip
