// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {
namespace {

struct Shape {
  int n_heads = 6, n_kv_heads = 2, head_dim = 64, page_tokens = 16;
  Dtype dtype = Dtype::kBFloat16;
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
};

// A sequence of `n_slots` random keys and values, in pages in a shuffled order among pages that hold NaN.
class Sequence {
 public:
  Sequence(const Shape& shape, int n_slots, std::uint64_t page_seed)
      : shape_(shape), n_pages_((n_slots + shape.page_tokens - 1) / shape.page_tokens), pages_(n_pages_) {
    const auto row = static_cast<std::size_t>(shape.n_kv_heads * shape.head_dim);
    page_bytes_ = 2 * row * static_cast<std::size_t>(shape.page_tokens) * dtype_bytes(shape.dtype);
    memory_ = std::make_unique<AlignedBytes>(page_bytes_ * 2 * n_pages_);
    std::vector<std::int32_t> order(2 * n_pages_);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(page_seed));
    std::copy_n(order.begin(), n_pages_, pages_.begin());
    keys_ = random_floats(row * static_cast<std::size_t>(n_slots), 1);
    values_ = random_floats(row * static_cast<std::size_t>(n_slots), 2);
    for (int slot = 0; slot < n_slots; ++slot) store(slot, slot);
  }
  // Puts the key and value of `from` at `slot`.
  void store(int slot, int from) {
    const auto at = static_cast<std::size_t>(from * shape_.n_kv_heads * shape_.head_dim);
    store_kv(kv(), pages_[static_cast<std::size_t>(slot / shape_.page_tokens)], slot % shape_.page_tokens, &keys_[at],
             &values_[at]);
  }
  // Makes a slot's key and value NaN.
  void poison(int slot) {
    const std::vector<float> bad(static_cast<std::size_t>(shape_.n_kv_heads * shape_.head_dim), std::nanf(""));
    store_kv(kv(), pages_[static_cast<std::size_t>(slot / shape_.page_tokens)], slot % shape_.page_tokens, bad.data(),
             bad.data());
  }
  PagedKv kv() const {
    return {memory_->data(),   static_cast<std::int64_t>(page_bytes_), shape_.dtype, shape_.n_kv_heads, shape_.head_dim,
            shape_.page_tokens};
  }
  const std::int32_t* pages() const { return pages_.data(); }
  double key(int slot, int kv_head, int d) const { return stored(keys_, slot, kv_head, d); }
  double value(int slot, int kv_head, int d) const { return stored(values_, slot, kv_head, d); }

 private:
  double stored(const std::vector<float>& from, int slot, int kv_head, int d) const {
    const float value = from[static_cast<std::size_t>((slot * shape_.n_kv_heads + kv_head) * shape_.head_dim + d)];
    return shape_.dtype == Dtype::kBFloat16 ? bf16_to_float(float_to_bf16(value)) : value;
  }
  Shape shape_;
  std::size_t n_pages_, page_bytes_ = 0;
  std::vector<std::int32_t> pages_;
  std::unique_ptr<AlignedBytes> memory_;
  std::vector<float> keys_, values_;
};

// An endless random sequence, of which at least n values are there.
const std::vector<float>& queries(std::size_t n) {
  static std::vector<float> values;
  if (values.size() < n) values = random_floats(2 * n, 3);
  return values;
}

// Queries of `rows`, one after the other from `first_query` on.
std::vector<float> attend(const KernelTable& table, const Shape& shape, const PagedKv& kv,
                          std::span<const AttentionRow> rows, std::size_t first_query, ThreadPool& pool) {
  const auto width = static_cast<std::size_t>(shape.n_heads * shape.head_dim);
  const auto& q = queries((first_query + rows.size()) * width);
  std::vector<float> out(rows.size() * width, -1.0F);
  const auto stride = static_cast<std::int64_t>(width);
  paged_attention_with(table, kv,
                       {&q[first_query * width], stride, rows, shape.n_heads, shape.scale(), out.data(), stride}, pool);
  return out;
}

std::vector<AttentionRow> chain(const Sequence& sequence, int n_committed, int n_rows) {
  std::vector<AttentionRow> rows;
  for (int i = 0; i < n_rows; ++i) rows.push_back({sequence.pages(), n_committed, i, {}});
  return rows;
}

std::vector<AttentionRow> windowed(std::vector<AttentionRow> rows, std::int32_t window) {
  for (AttentionRow& row : rows) row.window = window;
  return rows;
}

class Attention : public testing::TestWithParam<std::tuple<IsaClass, Dtype>> {
 protected:
  const KernelTable& table() const { return kernel_table(std::get<0>(GetParam())); }
  Shape shape(int n_heads = 6, int n_kv_heads = 2, int head_dim = 64, int page_tokens = 16) const {
    return {n_heads, n_kv_heads, head_dim, page_tokens, std::get<1>(GetParam())};
  }
  ThreadPool pool_{1};
};

INSTANTIATE_TEST_SUITE_P(Isa, Attention,
                         testing::Combine(testing::ValuesIn(available_isas()),
                                          testing::Values(Dtype::kBFloat16, Dtype::kFloat32)),
                         [](const auto& param) {
                           const char* dtype = std::get<1>(param.param) == Dtype::kFloat32 ? "_float32" : "_bfloat16";
                           return isa_class_name(std::get<0>(param.param)) + std::string(dtype);
                         });

// One head of one row in double, over the slots it sees.
void expect_reference(const Shape& shape, const Sequence& sequence, const std::vector<int>& slots, const float* q,
                      const float* out, int head) {
  const int kv_head = head / (shape.n_heads / shape.n_kv_heads);
  std::vector<double> weights;
  double most = -1e300, total = 0;
  for (const int slot : slots) {
    double score = 0;
    for (int d = 0; d < shape.head_dim; ++d) score += q[d] * sequence.key(slot, kv_head, d);
    weights.push_back(score * shape.scale());
    most = std::max(most, weights.back());
  }
  for (double& weight : weights) total += weight = std::exp(weight - most);
  for (int d = 0; d < shape.head_dim; ++d) {
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      sum += weights[i] / total * sequence.value(slots[i], kv_head, d);
      size += weights[i] / total * std::abs(sequence.value(slots[i], kv_head, d));
    }
    ASSERT_NEAR(out[d], sum, Tolerance::kAttention * size) << "head " << head << " dimension " << d;
  }
}

void expect_reference(const Shape& shape, const Sequence& sequence, const std::vector<std::vector<int>>& slots,
                      const std::vector<float>& out) {
  const auto dim = static_cast<std::size_t>(shape.head_dim), heads = static_cast<std::size_t>(shape.n_heads);
  const auto& q = queries(slots.size() * heads * dim);
  for (std::size_t row = 0; row < slots.size(); ++row) {
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t at = (row * heads + head) * dim;
      expect_reference(shape, sequence, slots[row], &q[at], &out[at], static_cast<int>(head));
    }
  }
}

TEST_P(Attention, ChainsEqualTheReferenceInEveryShape) {
  for (const Shape& s : {shape(), shape(4, 4), shape(9, 1, 32), shape(2, 1, 8), shape(5, 1, 40, 7), shape(20, 2, 24),
                         shape(3, 3, 256), shape(2, 2, 130, 5), shape(1, 1, 1024)}) {
    for (const int n_committed : {0, 1, 29, 31, 32, 100}) {
      const Sequence sequence(s, n_committed + 3, 5);
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

// A random tree: bit i of row r is set if i is r's ancestor or r itself.
std::vector<std::uint64_t> random_tree(int n_rows, int words, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto per_row = static_cast<std::size_t>(words);
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(n_rows) * per_row, 0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(n_rows); ++row) {
    if (row > 0 && random() % 8 != 0) {
      const std::size_t parent = row - 1 - random() % std::min<std::size_t>(row, 3);
      std::copy_n(&bits[parent * per_row], per_row, &bits[row * per_row]);
    }
    bits[row * per_row + row / 64] |= std::uint64_t{1} << (row % 64);
  }
  return bits;
}

std::vector<std::vector<int>> visible_slots(const std::vector<std::uint64_t>& tree, int n_rows, int words,
                                            int n_committed) {
  std::vector<std::vector<int>> slots(static_cast<std::size_t>(n_rows));
  for (int row = 0; row < n_rows; ++row) {
    auto& seen = slots[static_cast<std::size_t>(row)];
    for (int slot = 0; slot < n_committed; ++slot) seen.push_back(slot);
    for (int i = 0; i <= row; ++i) {
      if (tree[static_cast<std::size_t>(row * words + i / 64)] >> (i % 64) & 1) seen.push_back(n_committed + i);
    }
  }
  return slots;
}

std::vector<AttentionRow> tree_rows(const Sequence& sequence, const std::vector<std::uint64_t>& tree, int n_rows,
                                    int words, int n_committed) {
  std::vector<AttentionRow> rows;
  for (int i = 0; i < n_rows; ++i) {
    const auto at = static_cast<std::size_t>(i * words);
    rows.push_back({sequence.pages(), n_committed, i, std::span(tree).subspan(at, static_cast<std::size_t>(words))});
  }
  return rows;
}

TEST_P(Attention, TreesEqualTheReference) {
  for (const int n_rows : {1, 7, 40, 130}) {
    const int words = (n_rows + 63) / 64, n_committed = 50;
    const Sequence sequence(shape(), n_committed + n_rows, 6);
    const auto tree = random_tree(n_rows, words, 11);
    expect_reference(
        shape(), sequence, visible_slots(tree, n_rows, words, n_committed),
        attend(table(), shape(), sequence.kv(), tree_rows(sequence, tree, n_rows, words, n_committed), 0, pool_));
  }
}

// Of the given chunk sizes, those that give other bits than one row at a time. Later slots are not written yet when a
// row is computed alone, as in a real answer.
std::string variant_chunks(const KernelTable& table, const Shape& shape, ThreadPool& pool) {
  constexpr int kSlots = 150;
  const Sequence sequence(shape, kSlots, 7);
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

TEST_P(Attention, PagesMayLieAnywhere) {
  const Sequence one(shape(), 100, 8), other(shape(), 100, 9), unpaged(shape(6, 2, 64, 128), 100, 9);
  const auto expected = attend(table(), shape(), one.kv(), chain(one, 90, 10), 0, pool_);
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), other.kv(), chain(other, 90, 10), 0, pool_)));
  EXPECT_TRUE(same_bits(expected, attend(table(), shape(), unpaged.kv(), chain(unpaged, 90, 10), 0, pool_)));
}

TEST_P(Attention, OtherSequencesInTheStepChangeNoBit) {
  const Sequence one(shape(), 60, 10);
  const auto alone = attend(table(), shape(), one.kv(), chain(one, 50, 3), 0, pool_);
  // A second page table over the same memory is another sequence.
  std::vector<AttentionRow> rows = chain(one, 50, 3);
  std::vector<std::int32_t> first_pages(one.pages(), one.pages() + 1);
  for (int i = 0; i < 9; ++i) rows.push_back({first_pages.data(), i, 0, {}});
  auto mixed = attend(table(), shape(), one.kv(), rows, 0, pool_);
  mixed.resize(alone.size());
  EXPECT_TRUE(same_bits(alone, mixed));
}

struct PathCase {
  const KernelTable& table;
  Shape shape;
  std::int32_t window = 0;
  std::int32_t window_alone = window;  // another one only in negative controls
};

// A node's result is that of the chain of its ancestors: what makes a tree's accepted path equal decoding it.
void expect_trees_equal_chains(const PathCase& with, const std::vector<std::uint64_t>& shown,
                               const std::vector<std::uint64_t>& tree, int n_committed, ThreadPool& pool,
                               int& n_different) {
  const int n_rows = static_cast<int>(tree.size());
  const Shape& shape = with.shape;
  const Sequence sequence(shape, n_committed + n_rows, 12);
  const auto tree_views = windowed(tree_rows(sequence, shown, n_rows, 1, n_committed), with.window);
  const auto out = attend(with.table, shape, sequence.kv(), tree_views, 0, pool);
  const auto slots = visible_slots(tree, n_rows, 1, n_committed);
  const std::size_t width = out.size() / static_cast<std::size_t>(n_rows);
  for (std::size_t row = 0; row < slots.size(); ++row) {
    Sequence path(shape, n_committed + n_rows, 13);
    for (std::size_t rank = 0; rank < slots[row].size(); ++rank) path.store(static_cast<int>(rank), slots[row][rank]);
    const auto rows = windowed(chain(path, static_cast<int>(slots[row].size()) - 1, 1), with.window_alone);
    const auto alone = attend(with.table, shape, path.kv(), rows, row, pool);
    n_different += same_bits(alone, std::span(out).subspan(row * width, width)) ? 0 : 1;
  }
}

TEST_P(Attention, ATreeRowEqualsTheChainOfItsAncestors) {
  for (const int n_committed : {0, 5, 31, 32, 70}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto tree = random_tree(45, 1, seed);
      int n_different = 0;
      expect_trees_equal_chains({table(), shape()}, tree, tree, n_committed, pool_, n_different);
      EXPECT_EQ(n_different, 0) << n_committed << " committed, seed " << seed;
    }
  }
}

TEST_P(Attention, NegativeASiblingSeenByMistakeIsCaught) {
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

// What is left of a row's slots in a window: the last ones, whether committed or of this step.
std::vector<std::vector<int>> last_slots(std::vector<std::vector<int>> slots, int window) {
  for (auto& seen : slots) {
    const auto n = std::min<std::ptrdiff_t>(window, std::ssize(seen));
    seen.erase(seen.begin(), seen.end() - n);
  }
  return slots;
}

TEST_P(Attention, WindowsEqualTheReference) {
  for (const int window : {1, 2, 31, 32, 33, 64, 100, 1000}) {
    for (const int n_committed : {0, 5, 63, 130}) {
      const Sequence sequence(shape(), n_committed + 40, 15);
      const auto tree = random_tree(40, 1, 16);
      expect_reference(shape(), sequence, last_slots(visible_slots(tree, 40, 1, n_committed), window),
                       attend(table(), shape(), sequence.kv(),
                              windowed(tree_rows(sequence, tree, 40, 1, n_committed), window), 0, pool_));
    }
  }
}

// Alone, its predecessors are committed; verified with others they are rows of the step, with and without gaps. The
// window is shorter than the proposal, and shorter than the prompt.
TEST_P(Attention, AWindowedTreeRowEqualsTheChainOfItsAncestorsAlone) {
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
TEST_P(Attention, WhatLiesBeforeTheWindowLeavesNoTrace) {
  const Sequence sequence(shape(), 80, 18);
  Sequence poisoned(shape(), 80, 18);
  for (int slot = 0; slot < 70; ++slot) poisoned.poison(slot);
  const auto rows = windowed(chain(sequence, 77, 3), 8), bad_rows = windowed(chain(poisoned, 77, 3), 8);
  EXPECT_TRUE(same_bits(attend(table(), shape(), sequence.kv(), rows, 0, pool_),
                        attend(table(), shape(), poisoned.kv(), bad_rows, 0, pool_)));
}

TEST_P(Attention, NegativeAWindowOneSlotLongerIsCaught) {
  const auto tree = random_tree(20, 1, 19);
  int n_different = 0;
  expect_trees_equal_chains({table(), shape(), 5, /*window_alone=*/6}, tree, tree, 40, pool_, n_different);
  EXPECT_EQ(n_different, 20);
}

// A block whose scores are all far below an earlier one's, and one far above: online softmax must neither overflow nor
// lose what it had.
TEST_P(Attention, ScoresOfAnySizeStayFinite) {
  const Shape s = shape(1, 1, 16);
  const Sequence sequence(s, 96, 14);
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

}  // namespace
}  // namespace slip::kernels
