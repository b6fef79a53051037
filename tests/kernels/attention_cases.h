// SPDX-License-Identifier: Apache-2.0
// Shared by the attention tests: sequences in shuffled pages, the rows of chains and trees, and the plain reference in
// double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "tests/kernels/isa_and_dtype.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {

// What attention rounds to bfloat16 beside what the cache holds.
enum class Rounds { kNothing, kWeights, kQueriesAndWeights };

struct AttentionShape {
  int n_heads = 6, n_kv_heads = 2, head_dim = 64, page_tokens = 32;
  Dtype dtype = Dtype::kBFloat16;
  Rounds rounds = Rounds::kNothing;
  decltype(&store_kv) store = store_kv;
  float sharpness = 1;  // factor of the scores
  float scale() const { return sharpness / std::sqrt(static_cast<float>(head_dim)); }
};

// A sequence of `n_slots` random keys and values, in pages in shuffled order between pages of NaN.
class PagedSequence {
 public:
  PagedSequence(const AttentionShape& shape, int n_slots, std::uint64_t page_seed)
      : shape_(shape), n_pages_((n_slots + shape.page_tokens - 1) / shape.page_tokens), pages_(n_pages_) {
    const auto row = static_cast<std::size_t>(shape.n_kv_heads * shape.head_dim);
    page_bytes_ = static_cast<std::size_t>(
        layer_page_bytes({nullptr, 0, shape.dtype, shape.n_kv_heads, shape.head_dim, shape.page_tokens}));
    memory_ = std::make_unique<AlignedBytes>(page_bytes_ * 2 * n_pages_);
    std::vector<std::int32_t> order(2 * n_pages_);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(page_seed));
    std::copy_n(order.begin(), n_pages_, pages_.begin());
    unused_page_ = order.back();
    keys_ = random_floats(row * static_cast<std::size_t>(n_slots), 1);
    values_ = random_floats(row * static_cast<std::size_t>(n_slots), 2);
    for (int slot = 0; slot < n_slots; ++slot) store(slot, slot);
  }
  // Puts the key and value of `from` at `slot`.
  void store(int slot, int from) {
    const auto at = static_cast<std::size_t>(from * shape_.n_kv_heads * shape_.head_dim);
    store(slot, &keys_[at], &values_[at]);
  }
  // Makes a slot's key and value NaN, which store_kv() never does to a value.
  void poison(int slot) {
    const int offset = slot % shape_.page_tokens;
    copy_kv(kv(), unused_page_, offset, pages_[static_cast<std::size_t>(slot / shape_.page_tokens)], offset);
  }
  // Stores a slot's key and value again, with another number in one place of the value.
  void store_with(float number, int slot, int kv_head, int d) {
    const auto row = static_cast<std::size_t>(shape_.n_kv_heads * shape_.head_dim);
    const float* value = &values_[static_cast<std::size_t>(slot) * row];
    std::vector<float> changed(value, value + row);
    changed[static_cast<std::size_t>(kv_head * shape_.head_dim + d)] = number;
    store(slot, &keys_[static_cast<std::size_t>(slot) * row], changed.data());
  }
  PagedKv kv() const {
    return {memory_->data(),   static_cast<std::int64_t>(page_bytes_), shape_.dtype, shape_.n_kv_heads, shape_.head_dim,
            shape_.page_tokens};
  }
  const std::int32_t* pages() const { return pages_.data(); }
  double key(int slot, int kv_head, int d) const { return stored(keys_, slot, kv_head, d); }
  double value(int slot, int kv_head, int d) const { return stored(values_, slot, kv_head, d); }

 private:
  void store(int slot, const float* k, const float* v) {
    const std::int32_t page = pages_[static_cast<std::size_t>(slot / shape_.page_tokens)];
    shape_.store(kv(), page, slot % shape_.page_tokens, k, v);
  }
  double stored(const std::vector<float>& from, int slot, int kv_head, int d) const {
    const float value = from[static_cast<std::size_t>((slot * shape_.n_kv_heads + kv_head) * shape_.head_dim + d)];
    return shape_.dtype == Dtype::kBFloat16 ? bf16_to_float(float_to_bf16(value)) : value;
  }
  AttentionShape shape_;
  std::size_t n_pages_, page_bytes_ = 0;
  std::vector<std::int32_t> pages_;
  std::int32_t unused_page_ = 0;
  std::unique_ptr<AlignedBytes> memory_;
  std::vector<float> keys_, values_;
};

// The start of a fixed random sequence, at least n values long.
inline const std::vector<float>& queries(std::size_t n) {
  static std::vector<float> values;
  if (values.size() < n) values = random_floats(2 * n, 3);
  return values;
}

// Queries of `rows`, one after the other from `first_query` on.
inline std::vector<float> attend(const KernelTable& table, const AttentionShape& shape, const PagedKv& kv,
                                 std::span<const AttentionRow> rows, std::size_t first_query, ThreadPool& pool) {
  const auto width = static_cast<std::size_t>(shape.n_heads * shape.head_dim);
  const auto& q = queries((first_query + rows.size()) * width);
  std::vector<float> out(rows.size() * width, -1.0F);
  const auto stride = static_cast<std::int64_t>(width);
  paged_attention_with(table, kv,
                       {&q[first_query * width], stride, rows, shape.n_heads, shape.scale(), out.data(), stride}, pool);
  return out;
}

inline std::vector<AttentionRow> chain(const PagedSequence& sequence, int n_committed, int n_rows) {
  std::vector<AttentionRow> rows;
  for (int i = 0; i < n_rows; ++i) rows.push_back({sequence.pages(), n_committed, i, {}});
  return rows;
}

inline std::vector<AttentionRow> windowed(std::vector<AttentionRow> rows, std::int32_t window) {
  for (AttentionRow& row : rows) row.window = window;
  return rows;
}

// Each instruction class of this machine with each type of cache.
class AttentionTest : public testing::TestWithParam<std::tuple<IsaClass, Dtype>> {
 protected:
  const KernelTable& table() const { return kernel_table(std::get<0>(GetParam())); }
  AttentionShape shape(int n_heads = 6, int n_kv_heads = 2, int head_dim = 64, int page_tokens = 32) const {
    const Dtype dtype = std::get<1>(GetParam());
    const bool rounds = table().attention_rounds && dtype == Dtype::kBFloat16;
    return {n_heads, n_kv_heads, head_dim, page_tokens, dtype, rounds ? Rounds::kQueriesAndWeights : Rounds::kNothing};
  }
  ThreadPool pool_{1};
};

// One head of one row in double, over the slots it sees.
inline void expect_reference(const AttentionShape& shape, const PagedSequence& sequence, const std::vector<int>& slots,
                             const float* q, const float* out, int head) {
  const int kv_head = head / (shape.n_heads / shape.n_kv_heads);
  std::vector<double> weights;
  double most = -1e300, total = 0;
  for (const int slot : slots) {
    double score = 0;
    for (int d = 0; d < shape.head_dim; ++d) {
      score += (shape.rounds == Rounds::kQueriesAndWeights ? bf16_to_float(float_to_bf16(q[d])) : q[d]) *
               sequence.key(slot, kv_head, d);
    }
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
    // The rounding error of a large score becomes the relative error of its weight.
    const double of_scores = Tolerance::kAttention * (shape.sharpness - 1);
    const double tolerance =
        of_scores + (shape.rounds == Rounds::kNothing ? Tolerance::kAttention : Tolerance::kRoundedAttention);
    ASSERT_NEAR(out[d], sum, tolerance * size) << "head " << head << " dimension " << d;
  }
}

inline void expect_reference(const AttentionShape& shape, const PagedSequence& sequence,
                             const std::vector<std::vector<int>>& slots, const std::vector<float>& out) {
  const auto dim = static_cast<std::size_t>(shape.head_dim), heads = static_cast<std::size_t>(shape.n_heads);
  const auto& q = queries(slots.size() * heads * dim);
  for (std::size_t row = 0; row < slots.size(); ++row) {
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t at = (row * heads + head) * dim;
      expect_reference(shape, sequence, slots[row], &q[at], &out[at], static_cast<int>(head));
    }
  }
}

// A random tree: bit i of row r is set if i is r's ancestor or r itself.
inline std::vector<std::uint64_t> random_tree(int n_rows, int words, std::uint64_t seed) {
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

inline std::vector<std::vector<int>> visible_slots(const std::vector<std::uint64_t>& tree, int n_rows, int words,
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

inline std::vector<AttentionRow> tree_rows(const PagedSequence& sequence, const std::vector<std::uint64_t>& tree,
                                           int n_rows, int words, int n_committed) {
  std::vector<AttentionRow> rows;
  for (int i = 0; i < n_rows; ++i) {
    const auto at = static_cast<std::size_t>(i * words);
    rows.push_back({sequence.pages(), n_committed, i, std::span(tree).subspan(at, static_cast<std::size_t>(words))});
  }
  return rows;
}

// Eight rows whose sixth has a value that is not finite: as a chain, and as a tree in which only the sixth sees it.
struct BrokenRow {
  static constexpr int kCommitted = 40, kRows = 8, kBroken = 5, kDim = 7;
  static std::vector<std::uint64_t> star() {
    std::vector<std::uint64_t> tree;
    for (int row = 0; row < kRows; ++row) tree.push_back(std::uint64_t{1} | std::uint64_t{1} << row);
    return tree;
  }
};

// The rows that do not see the broken row's slot and have other bits nevertheless. attend(kv, rows): rows' results.
template <class Attend>
int rows_with_a_trace(const AttentionShape& shape, float number, const Attend& attend) {
  constexpr int kSlots = BrokenRow::kCommitted + BrokenRow::kRows;
  const PagedSequence whole(shape, kSlots, 51);
  PagedSequence broken(shape, kSlots, 51);
  broken.store_with(number, BrokenRow::kCommitted + BrokenRow::kBroken, 0, BrokenRow::kDim);
  const auto tree = BrokenRow::star();
  int n = 0;
  for (const bool is_chain : {true, false}) {
    const auto out_of = [&](const PagedSequence& sequence) {
      return attend(sequence.kv(), is_chain ? chain(sequence, BrokenRow::kCommitted, BrokenRow::kRows)
                                            : tree_rows(sequence, tree, BrokenRow::kRows, 1, BrokenRow::kCommitted));
    };
    const std::vector<float> expected = out_of(whole), out = out_of(broken);
    const std::size_t width = out.size() / BrokenRow::kRows;
    for (int row = 0; row < BrokenRow::kRows; ++row) {
      if (is_chain ? row >= BrokenRow::kBroken : row == BrokenRow::kBroken) continue;
      const auto of_row = [&](const std::vector<float>& all) {
        return std::span(all).subspan(static_cast<std::size_t>(row) * width, width);
      };
      n += same_bits(of_row(expected), of_row(out)) ? 0 : 1;
    }
  }
  return n;
}

struct PathCase {
  const KernelTable& table;
  AttentionShape shape;
  std::int32_t window = 0;
  std::int32_t window_alone = window;  // differs only in negative controls
};

// A node's result must equal that of the chain of its ancestors. So a tree's accepted path equals plain decoding.
inline void expect_trees_equal_chains(const PathCase& with, const std::vector<std::uint64_t>& shown,
                                      const std::vector<std::uint64_t>& tree, int n_committed, ThreadPool& pool,
                                      int& n_different) {
  const int n_rows = static_cast<int>(tree.size());
  const AttentionShape& shape = with.shape;
  const PagedSequence sequence(shape, n_committed + n_rows, 12);
  const auto tree_views = windowed(tree_rows(sequence, shown, n_rows, 1, n_committed), with.window);
  const auto out = attend(with.table, shape, sequence.kv(), tree_views, 0, pool);
  const auto slots = visible_slots(tree, n_rows, 1, n_committed);
  const std::size_t width = out.size() / static_cast<std::size_t>(n_rows);
  for (std::size_t row = 0; row < slots.size(); ++row) {
    PagedSequence path(shape, n_committed + n_rows, 13);
    for (std::size_t rank = 0; rank < slots[row].size(); ++rank) path.store(static_cast<int>(rank), slots[row][rank]);
    const auto rows = windowed(chain(path, static_cast<int>(slots[row].size()) - 1, 1), with.window_alone);
    const auto alone = attend(with.table, shape, path.kv(), rows, row, pool);
    n_different += same_bits(alone, std::span(out).subspan(row * width, width)) ? 0 : 1;
  }
}

}  // namespace slip::kernels
