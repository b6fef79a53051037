// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/branches.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slip {
namespace {

using Ints = std::vector<std::int32_t>;

Siblings siblings_of(std::initializer_list<std::int32_t> tokens) {
  Siblings siblings;
  for (const std::int32_t token : tokens) siblings.add(token);
  return siblings;
}

class BranchesTest : public ::testing::Test {
 protected:
  // Two tokens, to which the draft gave .45 and .65, with two siblings and one.
  void SetUp() override {
    chain_.add_to_chain(1, std::log(0.45));
    chain_.add_to_chain(2, std::log(0.65));
    branches_.begin(chain_, siblings_, &rates_);
  }
  double right(double q, std::int32_t rank) const { return rates_.rate(std::log(q), rank); }
  Ints tokens() {
    Ints found;
    for (const std::int32_t index : branches_.best()) found.push_back(branches_.node(index).token);
    return found;
  }

  Proposal chain_;
  std::vector<Siblings> siblings_{siblings_of({11, 12}), siblings_of({21})};
  ChoiceRates rates_;
  Branches branches_;
};

TEST_F(BranchesTest, ASiblingIsReachedWhereEarlierSiblingsAreWrong) {
  const double first = right(0.45, 0), second = first * right(0.65, 0);
  ASSERT_EQ(branches_.nodes().size(), 3U);
  EXPECT_NEAR(branches_.node(0).reached, (1 - first) * right(0.45, 1), 1e-9);
  EXPECT_NEAR(branches_.node(1).reached, (1 - first) * (1 - right(0.45, 1)) * right(0.45, 2), 1e-9);
  EXPECT_NEAR(branches_.node(2).reached, (first - second) * right(0.65, 1), 1e-9);
  EXPECT_EQ(branches_.node(0).parent, -1);
  EXPECT_EQ(branches_.node(2).parent, 0);
  EXPECT_EQ(branches_.node(2).depth, 1);
}

// Bits below kFirst are the chain's tokens, those after it the rows in the order of reading.
TEST_F(BranchesTest, ARowSeesItsPath) {
  EXPECT_EQ(branches_.best_unread(/*max_depth=*/4, /*n_chain_read=*/1), 0);
  branches_.read(0);
  EXPECT_EQ(branches_.node(0).seen, 1U << Branches::kFirst);
  branches_.read(2);
  EXPECT_EQ(branches_.node(2).seen, 1U | 2U << Branches::kFirst);
  branches_.add_children(0, 31, std::log(0.9), siblings_of({32}));
  EXPECT_EQ(branches_.node(3).depth, 1);
  branches_.read(3);
  EXPECT_EQ(branches_.node(3).seen, 1U << Branches::kFirst | 4U << Branches::kFirst);
  EXPECT_EQ(branches_.n_read(), 3);
  Ints path{7, 8};
  branches_.append_path(chain_, 3, path);
  EXPECT_EQ(path, (Ints{7, 8, 11, 31}));
  path.clear();
  branches_.append_path(chain_, 2, path);
  EXPECT_EQ(path, (Ints{1, 21}));
}

TEST_F(BranchesTest, OnlyWhatTheDraftCanContinueIsReadNext) {
  EXPECT_EQ(branches_.best_unread(4, 1), 0);
  EXPECT_EQ(branches_.best_unread(1, 1), -1) << "there is no depth left for children";
  branches_.read(0);
  EXPECT_EQ(branches_.best_unread(2, 1), 1) << "the sibling at depth 1 could have no children";
  branches_.read(1);
  EXPECT_EQ(branches_.best_unread(4, 0), -1) << "what comes before it was not read";
  EXPECT_EQ(branches_.best_unread(4, 1), 2);
  branches_.read(2);
  EXPECT_EQ(branches_.best_unread(4, 1), -1);
}

// However good its own chance looks, a child is kept only with its parent, and a sibling only with the earlier ones.
TEST_F(BranchesTest, ParentsAndEarlierSiblingsAreKeptFirst) {
  for (int i = 0; i < 500; ++i) rates_.add(std::log(0.95), 1, true);
  branches_.read(1);
  branches_.add_children(1, 31, std::log(0.95), siblings_of({32}));
  EXPECT_LE(branches_.node(3).worth, branches_.node(1).worth);
  EXPECT_LE(branches_.node(4).worth, branches_.node(3).worth);
  const Ints kept = tokens();
  const auto at = [&](std::int32_t token) { return std::find(kept.begin(), kept.end(), token) - kept.begin(); };
  EXPECT_EQ(kept.size(), 5U);
  EXPECT_LT(at(11), at(12));
  EXPECT_LT(at(12), at(31));
  EXPECT_LT(at(31), at(32));
}

TEST_F(BranchesTest, TheBestFitBehindTheChain) {
  Proposal chain;
  std::vector<Siblings> siblings(15, siblings_of({50, 51, 52}));
  for (std::int32_t i = 0; i < 15; ++i) chain.add_to_chain(i, std::log(0.95));
  siblings[0].tokens[0] = 77;
  for (int i = 0; i < 300; ++i) rates_.add(std::log(0.95), 0, i % 8 != 0);
  branches_.begin(chain, siblings, &rates_);
  EXPECT_EQ(tokens(), Ints{77});
}

// With nothing known of their worth, the second choices of all places come first.
TEST_F(BranchesTest, WithoutRatesTheyStandByRank) {
  branches_.begin(chain_, siblings_, nullptr);
  EXPECT_EQ(tokens(), (Ints{11, 21, 12}));
}

}  // namespace
}  // namespace slip
