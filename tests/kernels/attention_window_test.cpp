// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention_cases.h"

namespace slip::kernels {
namespace {

class AttentionWindow : public AttentionTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionWindow, every_isa_and_dtype(), isa_and_dtype_name);

// What is left of a row's slots in a window: the last ones, whether committed or of this step.
std::vector<std::vector<int>> last_slots(std::vector<std::vector<int>> slots, int window) {
  for (auto& seen : slots) {
    const auto n = std::min<std::ptrdiff_t>(window, std::ssize(seen));
    seen.erase(seen.begin(), seen.end() - n);
  }
  return slots;
}

TEST_P(AttentionWindow, WindowsEqualTheReference) {
  for (const int window : {1, 2, 31, 32, 33, 64, 100, 1000}) {
    for (const int n_committed : {0, 5, 63, 130}) {
      const PagedSequence sequence(shape(), n_committed + 40, 15);
      const auto tree = random_tree(40, 1, 16);
      expect_reference(shape(), sequence, last_slots(visible_slots(tree, 40, 1, n_committed), window),
                       attend(table(), shape(), sequence.kv(),
                              windowed(tree_rows(sequence, tree, 40, 1, n_committed), window), 0, pool_));
    }
  }
}

// Alone, its predecessors are committed; verified with others they are rows of the step, with and without gaps. The
// window is shorter than the proposal, and shorter than the prompt.
TEST_P(AttentionWindow, AWindowedTreeRowEqualsTheChainOfItsAncestorsAlone) {
  for (const int n_committed : {0, 31, 70}) {
    for (const int window : {1, 3, 32, 40}) {
      const auto tree = random_tree(60, 1, 17);
      int n_different = 0;
      expect_trees_equal_chains({table(), shape(), window}, tree, tree, n_committed, pool_, n_different);
      EXPECT_EQ(n_different, 0) << n_committed << " committed, window " << window;
    }
  }
}

// Slots before the window may hold anything: they must not even be multiplied by zero.
TEST_P(AttentionWindow, WhatLiesBeforeTheWindowLeavesNoTrace) {
  const PagedSequence sequence(shape(), 80, 18);
  PagedSequence poisoned(shape(), 80, 18);
  for (int slot = 0; slot < 70; ++slot) poisoned.poison(slot);
  const auto rows = windowed(chain(sequence, 77, 3), 8), bad_rows = windowed(chain(poisoned, 77, 3), 8);
  EXPECT_TRUE(same_bits(attend(table(), shape(), sequence.kv(), rows, 0, pool_),
                        attend(table(), shape(), poisoned.kv(), bad_rows, 0, pool_)));
}

TEST_P(AttentionWindow, NegativeAWindowOneSlotLongerIsCaught) {
  const auto tree = random_tree(20, 1, 19);
  int n_different = 0;
  expect_trees_equal_chains({table(), shape(), 5, /*window_alone=*/6}, tree, tree, 40, pool_, n_different);
  EXPECT_EQ(n_different, 20);
}

}  // namespace
}  // namespace slip::kernels
