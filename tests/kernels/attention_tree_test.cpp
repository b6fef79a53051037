// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention_cases.h"

namespace slip::kernels {
namespace {

class AttentionTree : public AttentionTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionTree, every_isa_and_dtype(), isa_and_dtype_name);

TEST_P(AttentionTree, TreesEqualTheReference) {
  for (const int n_rows : {1, 7, 40, 130}) {
    const int words = (n_rows + 63) / 64, n_committed = 50;
    const PagedSequence sequence(shape(), n_committed + n_rows, 6);
    const auto tree = random_tree(n_rows, words, 11);
    expect_reference(
        shape(), sequence, visible_slots(tree, n_rows, words, n_committed),
        attend(table(), shape(), sequence.kv(), tree_rows(sequence, tree, n_rows, words, n_committed), 0, pool_));
  }
}

TEST_P(AttentionTree, ATreeRowEqualsTheChainOfItsAncestors) {
  for (const int n_committed : {0, 5, 31, 32, 70}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto tree = random_tree(45, 1, seed);
      int n_different = 0;
      expect_trees_equal_chains({table(), shape()}, tree, tree, n_committed, pool_, n_different);
      EXPECT_EQ(n_different, 0) << n_committed << " committed, seed " << seed;
    }
  }
}

TEST_P(AttentionTree, NegativeASiblingSeenByMistakeIsCaught) {
  const auto tree = random_tree(20, 1, 1);
  auto shown = tree;
  int n_planted = 0, n_different = 0;
  for (std::size_t row = 1; row < 20; ++row) {
    if ((tree[row] >> (row - 1) & 1) != 0) continue;
    shown[row] |= std::uint64_t{1} << (row - 1);
    ++n_planted;
  }
  expect_trees_equal_chains({table(), shape()}, shown, tree, 40, pool_, n_different);
  ASSERT_GT(n_planted, 0);
  EXPECT_EQ(n_different, n_planted);
}

}  // namespace
}  // namespace slip::kernels
