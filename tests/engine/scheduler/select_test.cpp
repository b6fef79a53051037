// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/select.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

Proposal tree() {
  Proposal proposal;
  proposal.tokens = {1, 2, 3, 4};
  proposal.parents = {-1, -1, 0, 2};
  proposal.path_logprob = {-1, -2, -3, -4};
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
  EXPECT_EQ(proposal.q.size(), 3U);
  select_nodes(proposal, -1);
  EXPECT_EQ(proposal.size(), 0U);
}

}  // namespace
}  // namespace slip
