// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "common/error.h"
#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

constexpr int kLineWords = 16;
constexpr std::int64_t kLineBytes = 4 * kLineWords;

int values_a_word(Dtype dtype) {
  return static_cast<int>(4 / dtype_bytes(dtype));
}
int ceil_div(int n, int by) {
  return (n + by - 1) / by;
}
// Number of lines that one head's keys (values) take in a page.
std::int64_t key_lines(const PagedKv& kv) {
  return std::int64_t{ceil_div(kv.page_tokens, kLineWords)} * ceil_div(kv.head_dim, values_a_word(kv.dtype));
}
std::int64_t value_lines(const PagedKv& kv) {
  return std::int64_t{ceil_div(kv.head_dim, kLineWords)} * ceil_div(kv.page_tokens, values_a_word(kv.dtype));
}
std::int64_t head_bytes(const PagedKv& kv) {
  return kLineBytes * (key_lines(kv) + value_lines(kv));
}

// The addresses of one slot's key and value for one head, element by element.
template <class Value>
struct SlotPlaces {
  static constexpr int kPlaces = 4 / sizeof(Value);
  SlotPlaces(const PagedKv& kv, int head, std::int32_t page, int offset)
      : value_stride(ceil_div(kv.page_tokens, kPlaces) * kLineWords * kPlaces) {
    std::byte* at = static_cast<std::byte*>(kv.base) + page * kv.page_stride_bytes + head * head_bytes(kv);
    const int group = offset / kLineWords * ceil_div(kv.head_dim, kPlaces);
    keys = reinterpret_cast<Value*>(at) + (group * kLineWords + offset % kLineWords) * kPlaces;
    values = reinterpret_cast<Value*>(at + kLineBytes * key_lines(kv)) + offset / kPlaces * kLineWords * kPlaces +
             offset % kPlaces;
  }
  Value& key(int d) const { return keys[d / kPlaces * kLineWords * kPlaces + d % kPlaces]; }
  Value& value(int d) const { return values[d / kLineWords * value_stride + d % kLineWords * kPlaces]; }
  Value *keys, *values;
  std::int64_t value_stride;  // from 16 dims to the next 16
};

template <class Value>
constexpr Value kNan = std::numeric_limits<Value>::quiet_NaN();
template <>
constexpr std::uint16_t kNan<std::uint16_t> = 0x7FC0;  // bfloat16

bool is_finite(float value) {
  return std::isfinite(value);
}
bool is_finite(std::uint16_t bf16) {
  return (bf16 & 0x7F80U) != 0x7F80U;
}

// AMX multiplies the values of slots that a row does not see by zero, so all stored values are finite. Elements that
// are not, in the cache's type, become zero, and the key becomes NaN: each row that sees the slot gets NaN, whatever
// the instruction class. Devices store alike (RotateAndStore, kernels/cuda/rows.cuh).
template <class Value>
void store_head(const PagedKv& kv, const Value* k, const Value* v, const SlotPlaces<Value>& to) {
  for (int d = 0; d < kv.head_dim; ++d) to.key(d) = k[d];
  for (int d = 0; d < kv.head_dim; ++d) to.value(d) = v[d];
  bool finite = true;  // without an early exit, which would keep the loop scalar
  for (int d = 0; d < kv.head_dim; ++d) finite &= is_finite(v[d]);
  if (finite) return;
  for (int d = 0; d < kv.head_dim; ++d) to.key(d) = kNan<Value>;
  for (int d = 0; d < kv.head_dim; ++d) to.value(d) = is_finite(v[d]) ? v[d] : Value{0};
}
template <class Value>
void copy_head(const PagedKv& kv, const SlotPlaces<Value>& from, const SlotPlaces<Value>& to) {
  for (int d = 0; d < kv.head_dim; ++d) to.key(d) = from.key(d);
  for (int d = 0; d < kv.head_dim; ++d) to.value(d) = from.value(d);
}

// How many of the row's committed slots before `slot` are visible to it.
std::int32_t n_listed_before(const AttentionRow& row, std::int32_t slot) {
  if (row.visible.empty()) return slot;
  std::int32_t n = 0;
  for (const SlotRange& range : row.visible) n += std::max(0, std::min(range.end, slot) - range.begin);
  return n;
}

void find_view(const AttentionRow& row, AttentionRowView& view) {
  view.n_committed = row.n_committed;
  view.n_listed = n_listed_before(row, row.n_committed);
  std::int32_t n_leading = row.own_index + 1, n_of_step = row.own_index + 1;
  if (!row.ancestors.empty()) {
    view.ancestors = row.ancestors.data();
    bool leading = true;
    n_leading = n_of_step = 0;
    for (const std::uint64_t word : row.ancestors) {
      n_of_step += std::popcount(word);
      if (leading) n_leading += std::countr_one(word);
      leading = leading && ~word == 0;
    }
  }
  view.n_plain = view.n_listed + n_leading;
  view.n_visible = view.n_listed + n_of_step;
  if (row.window > 0) {
    const std::int32_t oldest = std::max(0, row.n_committed + n_of_step - row.window);  // position in the window
    view.first_visible =
        oldest < row.n_committed ? n_listed_before(row, oldest) : view.n_listed + oldest - row.n_committed;
  }
}

// Of two rows of one sequence.
bool see_one_cache(const AttentionRow& a, const AttentionRow& b) {
  if (a.visible.data() != b.visible.data() || a.visible.size() != b.visible.size()) return false;
  return a.visible.empty() || a.n_committed == b.n_committed;
}

constexpr std::size_t kStretchRows = 4;

struct TileGrid {
  const PagedKv& kv;
  const AttentionArguments& arguments;
  int heads_per_kv_head() const { return arguments.n_heads / kv.n_kv_heads; }
  int head_stretches() const { return (heads_per_kv_head() + kAttentionTileHeads - 1) / kAttentionTileHeads; }
  std::size_t stretches() const { return (arguments.rows.size() + kStretchRows - 1) / kStretchRows; }
  std::size_t columns() const { return static_cast<std::size_t>(kv.n_kv_heads * head_stretches()); }
};

AttentionTile tile_for_heads(const TileGrid& grid, int kv_head, int first_in_group) {
  const PagedKv& kv = grid.kv;
  AttentionTile tile;
  tile.n_heads = std::min(kAttentionTileHeads, grid.heads_per_kv_head() - first_in_group);
  tile.keys = static_cast<const std::byte*>(kv.base) + kv_head * head_bytes(kv);
  tile.values_offset_bytes = kLineBytes * key_lines(kv);
  tile.page_stride_bytes = kv.page_stride_bytes;
  tile.dtype = kv.dtype;
  tile.head_dim = kv.head_dim;
  tile.page_tokens = kv.page_tokens;
  tile.scale = grid.arguments.scale;
  return tile;
}

// A tile begins where the rows of a sequence begin, and at every sixteenth of them, counted from its first. The keys
// are thus read equally often wherever the sequence's rows lie in the step.
bool begins_tile(std::span<const AttentionRow> rows, std::size_t i) {
  return i == 0 || rows[i].own_index % kAttentionTileRows == 0 || rows[i].pages != rows[i - 1].pages;
}

// Runs the tiles that begin within one stretch and splits them where the visible slots change. A stretch has few rows,
// so that a slower thread takes fewer of them.
void attend_stretch(const KernelTable& table, const TileGrid& grid, std::size_t stretch, std::size_t column) {
  const auto rows = grid.arguments.rows;
  std::size_t row = stretch * kStretchRows, end = std::min(rows.size(), row + kStretchRows);
  while (row < end && !begins_tile(rows, row)) ++row;
  while (row < end && end < rows.size() && !begins_tile(rows, end)) ++end;
  const int kv_head = static_cast<int>(column) / grid.head_stretches();
  const int first_in_group = static_cast<int>(column) % grid.head_stretches() * kAttentionTileHeads;
  const std::int64_t first_dim = std::int64_t{kv_head * grid.heads_per_kv_head() + first_in_group} * grid.kv.head_dim;
  AttentionTile tile = tile_for_heads(grid, kv_head, first_in_group);
  for (; row < end; ++row) {
    const AttentionRow& from = rows[row];
    AttentionRowView& view = tile.rows[tile.n_rows++];
    view = {};
    find_view(from, view);
    view.q = grid.arguments.q + static_cast<std::int64_t>(row) * grid.arguments.q_stride + first_dim;
    view.out = grid.arguments.out + static_cast<std::int64_t>(row) * grid.arguments.out_stride + first_dim;
    const bool is_last = row + 1 == end, is_full = tile.n_rows == kAttentionTileRows;
    if (!is_last && !is_full && !begins_tile(rows, row + 1) && see_one_cache(from, rows[row + 1])) continue;
    tile.pages = from.pages;
    tile.next_pages = is_last ? nullptr : rows[row + 1].pages;
    tile.next_committed = is_last ? 0 : rows[row + 1].n_committed;
    AttentionRowView next;
    if (!is_last) find_view(rows[row + 1], next);
    tile.next_first = next.first_visible;
    tile.visible = from.visible.data();
    tile.n_visible_ranges = from.visible.size();
    table.attention(tile);
    tile.n_rows = 0;
  }
  if (table.end_bf16_tiles != nullptr) table.end_bf16_tiles();
}

}  // namespace

void paged_attention_with(const KernelTable& table, const PagedKv& kv, const AttentionArguments& arguments,
                          ThreadPool& pool) {
  SLIP_CHECK(kv.head_dim <= kMaxHeadDim, "a head is wider than the attention tile");
  SLIP_CHECK(kv.head_dim % 2 == 0, "rotation takes pairs of dimensions, and so do the products");
  SLIP_CHECK(arguments.n_heads % kv.n_kv_heads == 0, "each key head serves the same number of query heads");
  const TileGrid grid{kv, arguments};
  const std::size_t columns = grid.columns();
  const auto task = [&](std::size_t index, int) { attend_stretch(table, grid, index / columns, index % columns); };
  pool.parallel_for(grid.stretches() * columns, std::cref(task));
}

void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool) {
  paged_attention_with(kernel_table(), kv, {q, q_stride, rows, n_heads, scale, out, out_stride}, pool);
}

void store_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v) {
  const KernelTable& table = kernel_table();
  for (int head = 0; head < kv.n_kv_heads; ++head, k += kv.head_dim, v += kv.head_dim) {
    if (kv.dtype == Dtype::kFloat32) {
      store_head<float>(kv, k, v, {kv, head, page, offset});
    } else {
      std::uint16_t rounded[2][kMaxHeadDim];
      table.to_bf16(k, kv.head_dim, rounded[0]);
      table.to_bf16(v, kv.head_dim, rounded[1]);
      store_head<std::uint16_t>(kv, rounded[0], rounded[1], {kv, head, page, offset});
    }
  }
}

void copy_kv(const PagedKv& kv, std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset) {
  for (int head = 0; head < kv.n_kv_heads; ++head) {
    if (kv.dtype == Dtype::kFloat32) {
      copy_head<float>(kv, {kv, head, from_page, from_offset}, {kv, head, to_page, to_offset});
    } else {
      copy_head<std::uint16_t>(kv, {kv, head, from_page, from_offset}, {kv, head, to_page, to_offset});
    }
  }
}

std::int64_t layer_page_bytes(const PagedKv& kv) {
  return kv.n_kv_heads * head_bytes(kv);
}

}  // namespace slip::kernels
