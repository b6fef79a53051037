// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/kernels/attention_cases.h"

namespace slip::kernels {
namespace {

class Attention : public AttentionTest {};
INSTANTIATE_TEST_SUITE_P(Isa, Attention, every_isa_and_dtype(), isa_and_dtype_name);

TEST_P(Attention, ChainsEqualTheReferenceInEveryShape) {
  for (const AttentionShape& s :
       {shape(), shape(6, 2, 64, 16), shape(4, 4), shape(9, 1, 32), shape(2, 1, 8), shape(5, 1, 40, 7),
        shape(20, 2, 24), shape(3, 3, 256), shape(2, 2, 130, 5), shape(1, 1, 1024)}) {
    for (const int n_committed : {0, 1, 29, 31, 32, 100}) {
      const PagedSequence sequence(s, n_committed + 3, 5);
      std::vector<std::vector<int>> slots(3);
      for (int i = 0; i < 3; ++i) {
        slots[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(n_committed + i + 1));
        std::iota(slots[static_cast<std::size_t>(i)].begin(), slots[static_cast<std::size_t>(i)].end(), 0);
      }
      expect_reference(s, sequence, slots,
                       attend(table(), s, sequence.kv(), chain(sequence, n_committed, 3), 0, pool_));
    }
  }
}

// Of the given chunk sizes, those that give other bits than one row at a time. Later slots are not written yet when a
// row is computed alone, as in a real answer.
std::string variant_chunks(const KernelTable& table, const AttentionShape& shape, ThreadPool& pool) {
  constexpr int kSlots = 150;
  const PagedSequence sequence(shape, kSlots, 7);
  std::vector<float> singly;
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto out =
        attend(table, shape, sequence.kv(), chain(sequence, slot, 1), static_cast<std::size_t>(slot), pool);
    singly.insert(singly.end(), out.begin(), out.end());
  }
  std::string variant;
  for (const int chunk : {2, 3, 4, 5, 8, 9, 32, 33, 150}) {
    std::vector<float> all;
    for (int first = 0; first < kSlots; first += chunk) {
      const auto rows = chain(sequence, first, std::min(chunk, kSlots - first));
      const auto out = attend(table, shape, sequence.kv(), rows, static_cast<std::size_t>(first), pool);
      all.insert(all.end(), out.begin(), out.end());
    }
    if (!same_bits(all, singly)) variant += std::to_string(chunk) + " ";
  }
  return variant;
}

TEST_P(Attention, AnyChunkingGivesTheBitsOfOneRowAtATime) {
  ThreadPool two(2);
  EXPECT_EQ(variant_chunks(table(), shape(), pool_), "");
  EXPECT_EQ(variant_chunks(table(), shape(10, 1, 40, 7), two), "");
}

// Rounds otherwise when rows come together, by one unit in the last place of the scale: as little as another order of
// summation does.
TEST_P(Attention, NegativeAnOrderThatDependsOnTheChunkIsCaught) {
  static void (*whole)(const AttentionTile&) = nullptr;
  whole = table().attention;
  KernelTable planted = table();
  planted.attention = [](const AttentionTile& tile) {
    if (tile.n_rows == 1) return whole(tile);
    AttentionTile other = tile;
    other.scale = std::nextafter(tile.scale, 1.0F);
    whole(other);
  };
  EXPECT_EQ(variant_chunks(planted, shape(), pool_), "2 3 4 5 8 9 32 33 150 ");
}

// Also where a block does not fill a page, so that its slots are widened first.
TEST_P(Attention, PagesMayLieAnywhereAndBeOfAnySize) {
  const PagedSequence one(shape(), 100, 8), other(shape(), 100, 9), unpaged(shape(6, 2, 64, 128), 100, 9);
  const PagedSequence halves(shape(6, 2, 64, 16), 100, 9), odd(shape(6, 2, 64, 40), 100, 9);
  const auto expected = attend(table(), shape(), one.kv(), chain(one, 90, 10), 0, pool_);
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), other.kv(), chain(other, 90, 10), 0, pool_)));
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), unpaged.kv(), chain(unpaged, 90, 10), 0, pool_)));
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), halves.kv(), chain(halves, 90, 10), 0, pool_)));
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), odd.kv(), chain(odd, 90, 10), 0, pool_)));
}

TEST_P(Attention, OtherSequencesInTheStepChangeNoBit) {
  const PagedSequence one(shape(), 60, 10);
  const auto alone = attend(table(), shape(), one.kv(), chain(one, 50, 3), 0, pool_);
  // A second page table over the same memory is another sequence.
  std::vector<AttentionRow> rows = chain(one, 50, 3);
  std::vector<std::int32_t> first_pages(one.pages(), one.pages() + 1);
  for (int i = 0; i < 9; ++i) rows.push_back({first_pages.data(), i, 0, {}});
  auto mixed = attend(table(), shape(), one.kv(), rows, 0, pool_);
  mixed.resize(alone.size());
  EXPECT_TRUE(same_bits(alone, mixed));
}

// Also where no row is the sixteenth of its sequence, as in a draft's later passes over branches.
TEST_P(Attention, RowsOfManySequencesAreSharedAmongThreads) {
  static void (*whole)(const AttentionTile&) = nullptr;
  static int n_rows = 0, most_rows = 0;  // of the stretch that runs, and of the longest
  whole = table().attention;
  n_rows = most_rows = 0;
  KernelTable counting = table();
  counting.attention = [](const AttentionTile& tile) {
    n_rows += tile.n_rows;
    whole(tile);
  };
  static void (*end)() = nullptr;
  end = table().end_bf16_tiles;
  counting.end_bf16_tiles = [] {
    most_rows = std::max(most_rows, std::exchange(n_rows, 0));
    if (end != nullptr) end();
  };
  const PagedSequence memory(shape(), 60, 10);
  const std::vector<std::vector<std::int32_t>> tables(32, {memory.pages(), memory.pages() + 60 / 32 + 1});
  std::vector<AttentionRow> rows;
  for (const auto& pages : tables) rows.push_back({pages.data(), 40, /*own_index=*/17, {}});
  ThreadPool alone(1);
  attend(counting, shape(), memory.kv(), rows, 0, alone);
  EXPECT_GT(most_rows, 0);
  EXPECT_LE(most_rows, 4);
}

// Sequences of as many rows as they like, one after the other: each as alone, whichever thread begins where.
TEST_P(Attention, SequencesOfAnyLengthsShareAStep) {
  const PagedSequence memory(shape(), 100, 41);
  const std::vector<int> lengths = {1, 1, 6, 17, 1, 3, 40, 2, 16, 5, 1};
  // Each page table of its own over the same memory is another sequence.
  const std::vector<std::vector<std::int32_t>> tables(lengths.size(), {memory.pages(), memory.pages() + 100 / 32 + 1});
  std::vector<AttentionRow> rows;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (int i = 0; i < lengths[s]; ++i) rows.push_back({tables[s].data(), static_cast<std::int32_t>(5 * s), i, {}});
  }
  ThreadPool two(2);
  const auto together = attend(table(), shape(), memory.kv(), rows, 0, two);
  const std::size_t width = together.size() / rows.size();
  std::size_t row = 0;
  for (const int length : lengths) {
    const auto n = static_cast<std::size_t>(length);
    const auto alone = attend(table(), shape(), memory.kv(), std::span(rows).subspan(row, n), row, pool_);
    EXPECT_TRUE(same_bits(alone, std::span(together).subspan(row * width, n * width))) << "from row " << row;
    row += n;
  }
}

// A sharp softmax's greatest score keeps growing from block to block, for one query here and for another there.
TEST_P(Attention, WeightsThatOutgrowEarlierOnesChangeNoBitOfOtherRows) {
  AttentionShape sharp = shape(10, 1);
  sharp.sharpness = 64;
  const PagedSequence sequence(sharp, 320, 15);
  std::vector<std::vector<int>> slots(20);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].resize(300 + i + 1);
    std::iota(slots[i].begin(), slots[i].end(), 0);
  }
  expect_reference(sharp, sequence, slots, attend(table(), sharp, sequence.kv(), chain(sequence, 300, 20), 0, pool_));
  EXPECT_EQ(variant_chunks(table(), sharp, pool_), "");
}

// A block whose scores are all far below an earlier one's, and one far above: online softmax must neither overflow nor
// lose what it had.
TEST_P(Attention, ScoresOfAnySizeStayFinite) {
  const AttentionShape s = shape(1, 1, 16);
  const PagedSequence sequence(s, 96, 14);
  std::vector<float> q(16, 4000.0F), out(16);
  const std::vector<AttentionRow> rows = chain(sequence, 95, 1);
  for (const float sign : {1.0F, -1.0F}) {
    for (float& value : q) value = sign * 4000.0F;
    paged_attention_with(table(), sequence.kv(), {q.data(), 16, rows, 1, 1.0F, out.data(), 16}, pool_);
    double best = -1e300;
    int winner = 0;
    for (int slot = 0; slot < 96; ++slot) {
      double score = 0;
      for (int d = 0; d < 16; ++d) score += q[0] * sequence.key(slot, 0, d);
      if (score > best) winner = slot;
      best = std::max(best, score);
    }
    for (int d = 0; d < 16; ++d) EXPECT_EQ(out[static_cast<std::size_t>(d)], sequence.value(winner, 0, d));
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Bug: AMX multiplied a value that is not finite by the zero weights of the rows that do not see it: they became NaN.
TEST_P(Attention, WhatALaterRowStoresLeavesNoTraceInEarlierOnes) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity, 3.4e38F}) {  // the last is infinite in bfloat16
    for (const AttentionShape& s : {shape(), shape(8, 1, 40, 7)}) {
      EXPECT_EQ(rows_with_a_trace(s, bad,
                                  [&](const PagedKv& kv, const std::vector<AttentionRow>& rows) {
                                    return attend(table(), s, kv, rows, 0, pool_);
                                  }),
                0)
          << bad;
    }
  }
}

// Stored values are finite. The key of one that was not is NaN: rows that see it get NaN, as they do on a device.
TEST_P(Attention, AValueThatIsNotFiniteMovesIntoItsKey) {
  const AttentionShape s = shape(6, 2, 64);
  const std::size_t width = 6 * 64;
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    PagedSequence sequence(s, 40, 52);
    const auto whole = attend(table(), s, sequence.kv(), chain(sequence, 39, 1), 0, pool_);
    sequence.store_with(bad, 20, /*kv_head=*/1, 3);
    const auto broken = attend(table(), s, sequence.kv(), chain(sequence, 39, 1), 0, pool_);
    EXPECT_TRUE(same_bits(std::span(whole).first(width / 2), std::span(broken).first(width / 2))) << "the other head";
    EXPECT_TRUE(std::all_of(broken.begin() + width / 2, broken.end(), [](float x) { return std::isnan(x); })) << bad;
  }
}

}  // namespace
}  // namespace slip::kernels
