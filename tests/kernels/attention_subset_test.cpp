// SPDX-License-Identifier: Apache-2.0
// Rows that see only part of the cache: sinks and a window, or a choice of pages.
#include <algorithm>

#include "tests/kernels/attention_cases.h"

namespace slip::kernels {
namespace {

class AttentionSubset : public AttentionTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionSubset, every_isa_and_dtype(), isa_and_dtype_name);

using Ranges = std::vector<SlotRange>;

// What is left of `n_committed` slots: nothing, sinks and a window, every third page, odd pieces, single slots.
std::vector<Ranges> subsets_of(std::int32_t n_committed) {
  const auto until = [&](std::int32_t slot) { return std::min(slot, n_committed); };
  std::vector<Ranges> subsets{{{0, 0}}, {{0, until(4)}, {std::max(until(4), n_committed - 40), n_committed}}};
  Ranges pages, pieces, singles;
  for (std::int32_t begin = 0; begin < n_committed; begin += 48) pages.push_back({begin, until(begin + 16)});
  for (std::int32_t begin = 3; begin < n_committed; begin += 45) pieces.push_back({begin, until(begin + 37)});
  for (std::int32_t slot = 1; slot < n_committed; slot += 2) singles.push_back({slot, slot + 1});
  for (const Ranges& some : {pages, pieces, singles}) {
    if (!some.empty()) subsets.push_back(some);
  }
  return subsets;
}

std::vector<AttentionRow> seeing(std::vector<AttentionRow> rows, const Ranges& visible) {
  for (AttentionRow& row : rows) row.visible = visible;
  return rows;
}

bool holds(const Ranges& visible, std::int32_t slot) {
  return std::any_of(visible.begin(), visible.end(),
                     [&](const SlotRange& r) { return r.begin <= slot && slot < r.end; });
}

// The slots of a row under a subset and a window, whose positions are counted before anything is left out.
std::vector<int> left_of(const std::vector<int>& slots, std::int32_t n_committed, const Ranges& visible, int window) {
  std::vector<int> left;
  for (std::size_t position = 0; position < slots.size(); ++position) {
    const bool in_window = window == 0 || std::ssize(slots) - static_cast<std::ptrdiff_t>(position) <= window;
    if (in_window && (slots[position] >= n_committed || holds(visible, slots[position])))
      left.push_back(slots[position]);
  }
  return left;
}

TEST_P(AttentionSubset, TreesBehindSubsetsAndWindowsEqualTheReference) {
  for (const AttentionShape& s : {shape(), shape(8, 1, 40, 7)}) {
    for (const int n_committed : {1, 100}) {
      const PagedSequence sequence(s, n_committed + 24, 21);
      const auto tree = random_tree(24, 1, 22);
      const auto all = visible_slots(tree, 24, 1, n_committed);
      for (const Ranges& visible : subsets_of(n_committed)) {
        for (const int window : {0, 20, 60}) {
          std::vector<std::vector<int>> slots;
          for (const auto& seen : all) slots.push_back(left_of(seen, n_committed, visible, window));
          const auto rows = seeing(windowed(tree_rows(sequence, tree, 24, 1, n_committed), window), visible);
          expect_reference(s, sequence, slots, attend(table(), s, sequence.kv(), rows, 0, pool_));
        }
      }
    }
  }
}

TEST_P(AttentionSubset, ASubsetOfEverythingHasTheBitsOfNoSubset) {
  for (const int n_committed : {1, 16, 33, 130}) {
    const PagedSequence sequence(shape(), n_committed + 40, 23);
    const auto tree = random_tree(40, 1, 24);
    Ranges by_page{{0, 0}};
    for (int begin = 0; begin < n_committed; begin += 16) by_page.push_back({begin, std::min(begin + 16, n_committed)});
    for (const Ranges& visible : {Ranges{{0, n_committed}}, by_page}) {
      for (const int window : {0, 20, 64}) {
        for (const auto& rows : {windowed(chain(sequence, n_committed, 40), window),
                                 windowed(tree_rows(sequence, tree, 40, 1, n_committed), window)}) {
          EXPECT_TRUE(same_bits(attend(table(), shape(), sequence.kv(), rows, 0, pool_),
                                attend(table(), shape(), sequence.kv(), seeing(rows, visible), 0, pool_)))
              << n_committed << " committed, window " << window;
        }
      }
    }
  }
}

// Each row again over a cache that holds a copy of what it may see, without gaps, and nothing else.
int count_different_from_compacted(const KernelTable& table, const AttentionShape& shape, const Ranges& shown,
                                   const Ranges& visible, ThreadPool& pool) {
  constexpr int kCommitted = 130, kRows = 40;
  const PagedSequence sequence(shape, kCommitted + kRows, 25);
  PagedSequence compact(shape, kCommitted + kRows, 26);
  const auto tree = random_tree(kRows, 1, 27);
  const auto rows = seeing(tree_rows(sequence, tree, kRows, 1, kCommitted), shown);
  const auto out = attend(table, shape, sequence.kv(), rows, 0, pool);
  const auto all = visible_slots(tree, kRows, 1, kCommitted);
  const std::size_t width = out.size() / kRows;
  int n_different = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto slots = left_of(all[row], kCommitted, visible, 0);
    for (std::size_t rank = 0; rank < slots.size(); ++rank) compact.store(static_cast<int>(rank), slots[rank]);
    const auto chained = chain(compact, static_cast<int>(slots.size()) - 1, 1);
    const auto alone = attend(table, shape, compact.kv(), chained, row, pool);
    n_different += same_bits(alone, std::span(out).subspan(row * width, width)) ? 0 : 1;
  }
  return n_different;
}

// The same bits as a cache that holds nothing else, which is also what makes a row independent of its neighbours.
TEST_P(AttentionSubset, ASubsetHasTheBitsOfACacheThatHoldsNothingElse) {
  ThreadPool two(2);
  for (const Ranges& visible : subsets_of(130)) {
    EXPECT_EQ(count_different_from_compacted(table(), shape(), visible, visible, pool_), 0);
    EXPECT_EQ(count_different_from_compacted(table(), shape(10, 1, 40, 7), visible, visible, two), 0);
  }
}

TEST_P(AttentionSubset, NegativeARangeOneSlotOffIsCaught) {
  EXPECT_EQ(count_different_from_compacted(table(), shape(), {{0, 4}, {91, 130}}, {{0, 4}, {90, 130}}, pool_), 40);
}

// Slot by slot, the window's end moving along: what a row sees does not depend on which rows came with it.
TEST_P(AttentionSubset, AnyChunkingGivesTheBitsOfOneRowAtATime) {
  constexpr int kBegin = 100, kRows = 40;
  const PagedSequence sequence(shape(), kBegin + kRows, 28);
  const auto attend_chunks = [&](int chunk, int window) {
    std::vector<float> all;
    for (int first = kBegin; first < kBegin + kRows; first += chunk) {
      const Ranges visible{{0, 5}, {60, first}};
      const int n = std::min(chunk, kBegin + kRows - first);
      const auto rows = seeing(windowed(chain(sequence, first, n), window), visible);
      const auto out = attend(table(), shape(), sequence.kv(), rows, static_cast<std::size_t>(first), pool_);
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  };
  for (const int window : {0, 30, 110}) {
    const auto singly = attend_chunks(1, window);
    for (const int chunk : {2, 3, 8, 9, 40}) EXPECT_TRUE(same_bits(attend_chunks(chunk, window), singly)) << chunk;
  }
}

TEST_P(AttentionSubset, WhatIsNotVisibleLeavesNoTrace) {
  const Ranges visible{{0, 4}, {50, 70}};
  const PagedSequence sequence(shape(), 80, 29);
  PagedSequence poisoned(shape(), 80, 29);
  for (int slot = 0; slot < 77; ++slot) {
    if (!holds(visible, slot)) poisoned.poison(slot);
  }
  const auto rows = seeing(chain(sequence, 77, 3), visible), bad_rows = seeing(chain(poisoned, 77, 3), visible);
  EXPECT_TRUE(same_bits(attend(table(), shape(), sequence.kv(), rows, 0, pool_),
                        attend(table(), shape(), poisoned.kv(), bad_rows, 0, pool_)));
}

// Rows of one step with subsets of their own, over the same pages.
TEST_P(AttentionSubset, NeighboursWithOtherSubsetsChangeNoBit) {
  const PagedSequence one(shape(), 60, 30);
  const Ranges some{{0, 3}, {40, 50}}, others{{10, 20}};
  const auto mine = seeing(chain(one, 50, 3), some);
  auto rows = mine;
  for (const AttentionRow& row : seeing(chain(one, 50, 2), others)) rows.push_back(row);
  for (const AttentionRow& row : seeing(chain(one, 55, 2), some)) rows.push_back(row);
  rows.push_back({one.pages(), 55, 0, {}});
  const auto alone = attend(table(), shape(), one.kv(), mine, 0, pool_);
  auto mixed = attend(table(), shape(), one.kv(), rows, 0, pool_);
  mixed.resize(alone.size());
  EXPECT_TRUE(same_bits(alone, mixed));
}

}  // namespace
}  // namespace slip::kernels
