// SPDX-License-Identifier: Apache-2.0
// The device's paged attention, its body run on the host, against the reference in double, and its bits against
// themselves under everything that must not change them.
#include "kernels/cuda/attention.cuh"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/attention_cases.h"
#include "tests/kernels/cuda/device_kv.h"
#include "tests/kernels/cuda/host_grid.h"

namespace slip::kernels::cuda {
namespace {

AttentionShape shape_of(int n_heads, int n_kv_heads, int head_dim, int page_tokens = 16) {
  return {n_heads, n_kv_heads, head_dim, page_tokens, Dtype::kBFloat16, Rounds::kWeights, store_device_kv};
}

std::vector<DeviceRow> device_rows(const std::vector<AttentionRow>& rows) {
  static_assert(sizeof(DeviceRange) == sizeof(SlotRange));
  std::vector<DeviceRow> out;
  for (const AttentionRow& row : rows) {
    out.push_back({row.pages, row.ancestors.data(), static_cast<std::int32_t>(row.ancestors.size()), row.n_committed,
                   row.own_index, row.window, reinterpret_cast<const DeviceRange*>(row.visible.data()),
                   static_cast<std::int32_t>(row.visible.size())});
  }
  return out;
}

struct Way {
  bool whole = true;
  std::int32_t rows_a_tile = 4;
  std::int32_t heads_a_tile = 3;
};

std::vector<float> attend_on_host(const AttentionShape& shape, const PagedKv& kv, const std::vector<AttentionRow>& rows,
                                  std::size_t first_query, const Way& way) {
  const auto views = device_rows(rows);
  const auto n = static_cast<std::int32_t>(rows.size());
  std::vector<AttentionTileRows> tiles;
  for (std::int32_t row = 0; row < n; row += way.rows_a_tile)
    tiles.push_back({row, std::min(way.rows_a_tile, n - row)});
  tiles.push_back({0, 0});
  const std::int64_t width = std::int64_t{shape.n_heads} * shape.head_dim;
  std::vector<float> out(static_cast<std::size_t>(n * width), -1.0F);
  Attention job;
  job.q = &queries((first_query + rows.size()) *
                   static_cast<std::size_t>(width))[first_query * static_cast<std::size_t>(width)];
  job.q_stride = job.out_stride = width;
  job.kv = {static_cast<std::uint16_t*>(kv.base), kv.page_stride_bytes / 2, kv.n_kv_heads, kv.head_dim, kv.page_tokens};
  job.rows = views.data();
  job.tiles = tiles.data();
  job.n_heads = shape.n_heads;
  job.heads_a_tile = way.heads_a_tile;
  job.scale = shape.scale();
  job.whole = way.whole;
  job.n_splits = 4;
  job.out = out.data();
  std::vector<float> partial(static_cast<std::size_t>(n * shape.n_heads * job.n_splits * (shape.head_dim + 2)),
                             std::nanf(""));
  job.partial = partial.data();
  const auto bytes = attention_shared_bytes(shape.head_dim, way.whole);
  const AlignedBytes memory(static_cast<std::size_t>(bytes));
  const Grid grid{static_cast<int>(tiles.size()), shape.n_kv_heads * job.stretches(), way.whole ? 1 : job.n_splits};
  run_on_host<kAttentionThreads>(
      grid, [&](const AttentionBlock& block) { attend(block, job, reinterpret_cast<float*>(memory.data())); });
  if (!way.whole) {
    run_on_host<kCombineThreads>({n, shape.n_heads},
                                 [&](const Block<kCombineThreads>& block) { combine_splits(block, job); });
  }
  return out;
}

std::vector<std::vector<int>> chain_slots(int n_committed, int n_rows, int window = 0) {
  std::vector<std::vector<int>> slots(static_cast<std::size_t>(n_rows));
  for (int row = 0; row < n_rows; ++row) {
    const int end = n_committed + row + 1;
    for (int slot = window > 0 ? std::max(0, end - window) : 0; slot < end; ++slot) {
      slots[static_cast<std::size_t>(row)].push_back(slot);
    }
  }
  return slots;
}

TEST(CudaAttention, AChainEqualsTheReference) {
  for (const AttentionShape& shape : {shape_of(6, 2, 64), shape_of(4, 4, 20, 8), shape_of(8, 1, 128)}) {
    for (const int n_committed : {0, 31, 300}) {
      const PagedSequence sequence(shape, n_committed + 5, 1);
      const auto out = attend_on_host(shape, sequence.kv(), chain(sequence, n_committed, 5), 0, {});
      expect_reference(shape, sequence, chain_slots(n_committed, 5), out);
    }
  }
}

TEST(CudaAttention, AWindowEqualsTheReference) {
  const AttentionShape shape = shape_of(6, 2, 64);
  for (const int window : {1, 40, 290}) {
    const PagedSequence sequence(shape, 560, 1);
    const auto rows = windowed(chain(sequence, 550, 7), window);
    const auto out = attend_on_host(shape, sequence.kv(), rows, 0, {false});
    expect_reference(shape, sequence, chain_slots(550, 7, window), out);
    EXPECT_TRUE(same_bits(out, attend_on_host(shape, sequence.kv(), rows, 0, {true, 7, 2})));
  }
}

TEST(CudaAttention, ATreeEqualsTheReference) {
  const AttentionShape shape = shape_of(6, 2, 64);
  for (const int n_committed : {3, 250}) {
    const PagedSequence sequence(shape, n_committed + 70, 1);
    const auto tree = random_tree(70, 2, 5);
    const auto rows = tree_rows(sequence, tree, 70, 2, n_committed);
    const auto out = attend_on_host(shape, sequence.kv(), rows, 0, {});
    expect_reference(shape, sequence, visible_slots(tree, 70, 2, n_committed), out);
    EXPECT_TRUE(same_bits(out, attend_on_host(shape, sequence.kv(), rows, 0, {false, 16, 1})));
  }
}

// Sinks and a window of the cache, pieces of it, and nothing of it.
TEST(CudaAttention, ASubsetEqualsTheReferenceAndAllOfItIsNoSubset) {
  const AttentionShape shape = shape_of(6, 2, 64);
  const int n_committed = 300, n_rows = 12;
  const PagedSequence sequence(shape, n_committed + n_rows, 1);
  const auto tree = random_tree(n_rows, 1, 8);
  using Ranges = std::vector<SlotRange>;
  for (const Ranges& visible : {Ranges{{0, 0}}, Ranges{{0, 4}, {250, 300}}, Ranges{{3, 40}, {41, 42}, {90, 299}}}) {
    for (const int window : {0, 5, 100}) {
      auto rows = windowed(tree_rows(sequence, tree, n_rows, 1, n_committed), window);
      for (AttentionRow& row : rows) row.visible = visible;
      std::vector<std::vector<int>> slots;
      for (const auto& seen : visible_slots(tree, n_rows, 1, n_committed)) {
        slots.emplace_back();
        for (std::size_t position = 0; position < seen.size(); ++position) {
          const bool listed =
              seen[position] >= n_committed || std::any_of(visible.begin(), visible.end(), [&](SlotRange r) {
                return r.begin <= seen[position] && seen[position] < r.end;
              });
          const bool recent = window == 0 || seen.size() - position <= static_cast<std::size_t>(window);
          if (listed && recent) slots.back().push_back(seen[position]);
        }
      }
      expect_reference(shape, sequence, slots, attend_on_host(shape, sequence.kv(), rows, 0, {window != 5}));
    }
  }
  const Ranges all{{0, 100}, {100, 300}};
  auto rows = tree_rows(sequence, tree, n_rows, 1, n_committed);
  const auto expected = attend_on_host(shape, sequence.kv(), rows, 0, {});
  for (AttentionRow& row : rows) row.visible = all;
  EXPECT_TRUE(same_bits(expected, attend_on_host(shape, sequence.kv(), rows, 0, {})));
}

// Splits of their own or in one block, rows and heads a tile, and pages: none of it is in the bits.
TEST(CudaAttention, BitsDoNotDependOnTilesSplitsOrPages) {
  const AttentionShape shape = shape_of(8, 2, 64);
  const int n_committed = 700, n_rows = 9;
  const PagedSequence sequence(shape, n_committed + n_rows, 1), moved(shape, n_committed + n_rows, 77);
  const auto expected = attend_on_host(shape, sequence.kv(), chain(sequence, n_committed, n_rows), 0, {});
  for (const Way& way : {Way{false, 1, 4}, Way{true, 9, 1}, Way{false, 16, 1}, Way{true, 2, 3}}) {
    EXPECT_TRUE(
        same_bits(expected, attend_on_host(shape, sequence.kv(), chain(sequence, n_committed, n_rows), 0, way)));
    EXPECT_TRUE(same_bits(expected, attend_on_host(shape, moved.kv(), chain(moved, n_committed, n_rows), 0, way)));
  }
  // A prompt in chunks: the last rows, when those before them are committed.
  const std::size_t width = expected.size() / n_rows;
  const auto late = attend_on_host(shape, sequence.kv(), chain(sequence, n_committed + 6, 3), 6, {});
  EXPECT_TRUE(same_bits(late, std::span(expected).subspan(6 * width)));
}

// A node's result is that of the chain of its ancestors.
int trees_different_from_chains(const std::vector<std::uint64_t>& shown, const std::vector<std::uint64_t>& tree,
                                std::int32_t window) {
  const AttentionShape shape = shape_of(6, 2, 64);
  const int n_committed = 250, n_rows = static_cast<int>(tree.size());
  const PagedSequence sequence(shape, n_committed + n_rows, 12);
  const auto views = windowed(tree_rows(sequence, shown, n_rows, 1, n_committed), window);
  const auto out = attend_on_host(shape, sequence.kv(), views, 0, {});
  const auto slots = visible_slots(tree, n_rows, 1, n_committed);
  const std::size_t width = out.size() / tree.size();
  int n_different = 0;
  for (std::size_t row = 0; row < slots.size(); ++row) {
    PagedSequence path(shape, n_committed + n_rows, 13);
    for (std::size_t rank = 0; rank < slots[row].size(); ++rank) path.store(static_cast<int>(rank), slots[row][rank]);
    const auto rows = windowed(chain(path, static_cast<int>(slots[row].size()) - 1, 1), window);
    const auto alone = attend_on_host(shape, path.kv(), rows, row, {false});
    n_different += same_bits(alone, std::span(out).subspan(row * width, width)) ? 0 : 1;
  }
  return n_different;
}

TEST(CudaAttention, TreesEqualChainsToTheBit) {
  const auto tree = random_tree(24, 1, 3);
  EXPECT_EQ(trees_different_from_chains(tree, tree, 0), 0);
  EXPECT_EQ(trees_different_from_chains(tree, tree, 100), 0);
}

TEST(CudaAttentionNegative, AWrongAncestorIsSeen) {
  const auto tree = random_tree(24, 1, 3);
  auto shown = tree;
  shown[23] ^= 1;
  EXPECT_EQ(trees_different_from_chains(shown, tree, 0), 1);
}

TEST(CudaAttention, ActivationsAreTheResultRounded) {
  const AttentionShape shape = shape_of(6, 2, 64);
  const PagedSequence sequence(shape, 40, 1);
  const auto rows = device_rows(chain(sequence, 30, 3));
  const auto out = attend_on_host(shape, sequence.kv(), chain(sequence, 30, 3), 0, {});
  const AttentionTileRows tile{0, 3};
  const PagedKv kv = sequence.kv();
  std::vector<std::uint16_t> activations(static_cast<std::size_t>(activation_elements(3, 384)), kHalfNan);
  Attention job;
  job.q = queries(3 * 384).data();
  job.q_stride = 384;
  job.kv = {static_cast<std::uint16_t*>(kv.base), kv.page_stride_bytes / 2, 2, 64, 16};
  job.rows = rows.data();
  job.tiles = &tile;
  job.n_heads = 6;
  job.heads_a_tile = 3;
  job.scale = shape.scale();
  job.activations = activations.data();
  const AlignedBytes memory(static_cast<std::size_t>(attention_shared_bytes(64, true)));
  run_on_host<kAttentionThreads>(
      {1, 2}, [&](const AttentionBlock& block) { attend(block, job, reinterpret_cast<float*>(memory.data())); });
  EXPECT_EQ(activations, packed_activations(out, 3, 384));
}

// Stores as the device does, by rotate_and_store() at an angle of zero.
void store_by_kernel(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v) {
  const int width = kv.n_kv_heads * kv.head_dim;
  std::vector<float> qkv(k, k + width);
  qkv.insert(qkv.end(), v, v + width);
  const auto half = static_cast<std::size_t>(kv.head_dim / 2);
  const std::vector<float> one(half, 1.0F), zero(half, 0.0F);
  const std::int32_t position = 0;
  const DeviceRow row{&page, nullptr, 0, offset};
  const RotateAndStore job{
      qkv.data(),
      2 * width,
      /*n_heads=*/0,
      {static_cast<std::uint16_t*>(kv.base), kv.page_stride_bytes / 2, kv.n_kv_heads, kv.head_dim, kv.page_tokens},
      &row,
      &position,
      one.data(),
      zero.data()};
  run_on_host<kRowThreads>({1, head_groups(job)}, [&](const RowBlock& block) { rotate_and_store(block, job); });
}

int traces_in_other_rows(decltype(&store_kv) store, float number, const Way& way) {
  AttentionShape shape = shape_of(6, 2, 64);
  shape.store = store;
  return rows_with_a_trace(shape, number, [&](const PagedKv& kv, const std::vector<AttentionRow>& rows) {
    return attend_on_host(shape, kv, rows, 0, way);
  });
}

// Attention multiplies a value by the zero weights of the rows that do not see it. So rotate_and_store() stores finite
// ones only.
TEST(CudaAttention, WhatALaterRowStoresLeavesNoTraceInEarlierOnes) {
  for (const float bad : {std::nanf(""), infinity(), -infinity(), 3.4e38F}) {  // the last is infinite in bfloat16
    for (const Way& way : {Way{}, Way{false, 8, 2}})
      EXPECT_EQ(traces_in_other_rows(store_by_kernel, bad, way), 0) << bad;
  }
}

TEST(CudaAttentionNegative, AStoredValueThatIsNotFiniteReachesOtherRows) {
  EXPECT_GT(traces_in_other_rows(store_device_kv, std::nanf(""), {}), 0);
}

}  // namespace
}  // namespace slip::kernels::cuda
