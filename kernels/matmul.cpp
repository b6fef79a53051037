// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <functional>

#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

constexpr std::int64_t kStepBytes = kPanelColumns * 4;  // of weights, in both number formats
// 16 KiB of weights stay in the first-level cache while all rows pass over them; sums wait in memory meanwhile, which
// changes no bit.
constexpr std::int64_t kStretchDepth = 64;
constexpr std::int64_t kMostTaskRows = 48;          // their sums are 12 KiB
constexpr std::int64_t kRowsWorthThreads = 16;      // fewer rows are converted before another thread would wake
constexpr std::int64_t kBytesWorthThreads = 65536;  // of weights × row tiles; less is done before another thread wakes

struct Multiplication {
  const KernelTable& table;
  const PackedMatrix& weight;
  const MatmulArguments& arguments;
  void (*tile)(const MatmulTile&);
  const std::byte* x;  // as the tile wants it
  std::int64_t x_stride_bytes;
  std::int64_t x_step_bytes;
  std::int64_t depth;
  int tile_rows;
};

void convert_rows(const KernelTable& table, const MatmulArguments& arguments, std::int64_t n_in,
                  std::int64_t stride_bytes, ThreadPool& pool) {
  const auto convert = [&](std::size_t row, int) {
    const auto r = static_cast<std::int64_t>(row);
    table.bf16_activations(arguments.x + r * arguments.x_stride, n_in,
                           static_cast<std::byte*>(arguments.scratch) + r * stride_bytes);
  };
  if (arguments.n_rows >= kRowsWorthThreads) {
    pool.parallel_for(static_cast<std::size_t>(arguments.n_rows), std::cref(convert));
  } else {
    for (std::int64_t r = 0; r < arguments.n_rows; ++r) convert(static_cast<std::size_t>(r), 0);
  }
}

Multiplication prepare(const KernelTable& table, const PackedMatrix& weight, const MatmulArguments& arguments,
                       ThreadPool& pool) {
  const std::int64_t n_in = weight.n_in();
  if (weight.compute_dtype() == Dtype::kFloat32) {
    const auto* x = reinterpret_cast<const std::byte*>(arguments.x);
    return {table, weight, arguments, table.matmul_f32, x, arguments.x_stride * 4, 4, n_in, table.f32_tile_rows};
  }
  const std::int64_t depth = (n_in + 1) / 2, step_bytes = table.bf16_pair_bytes;
  convert_rows(table, arguments, n_in, depth * step_bytes, pool);
  const auto* x = static_cast<const std::byte*>(arguments.scratch);
  return {table, weight, arguments, table.matmul_bf16, x, depth * step_bytes, step_bytes, depth, table.bf16_tile_rows};
}

// Tiles that work on a stretch of weights from the cache leave the memory idle: the first of them share out the next
// stretch and fetch it. A single tile does too: left to the processor's own prefetching, its reads and its arithmetic
// took turns (four rows at 1.5 times the time of one instead of 1.2, on a Xeon with AVX512-BF16).
void fetch_share(MatmulTile& tile, std::int64_t t, std::int64_t n_tiles) {
  const std::int64_t n_sharing = n_tiles >= 4 ? 4 : n_tiles >= 2 ? 2 : 1;
  tile.next_weight = nullptr;
  if (t >= n_sharing) return;
  tile.next_step_bytes = kStepBytes / n_sharing;
  tile.next_weight = tile.weight + kStretchDepth * (kStepBytes + t * tile.next_step_bytes);
}

// sums [n_rows, kPanelColumns] of rows from first_row on, over the panel's whole depth.
void sum_panel(const Multiplication& job, const std::byte* panel, std::int64_t first_row, std::int64_t n_rows,
               float* sums) {
  const std::int64_t n_tiles = (n_rows + job.tile_rows - 1) / job.tile_rows;
  for (std::int64_t at = 0; at < job.depth; at += kStretchDepth) {
    MatmulTile tile;
    tile.weight = panel + at * kStepBytes;
    tile.depth = std::min(kStretchDepth, job.depth - at);
    tile.x_stride_bytes = job.x_stride_bytes;
    for (std::int64_t t = 0; t < n_tiles; ++t) {
      const std::int64_t begin = n_rows * t / n_tiles;
      tile.n_rows = static_cast<int>(n_rows * (t + 1) / n_tiles - begin);
      tile.x = job.x + (first_row + begin) * job.x_stride_bytes + at * job.x_step_bytes;
      tile.sums = sums + begin * kPanelColumns;
      fetch_share(tile, t, n_tiles);
      job.tile(tile);
    }
  }
}

void multiply_panel(const Multiplication& job, std::int64_t panel, std::int64_t first_row, std::int64_t n_rows) {
  alignas(64) float sums[kMostTaskRows * kPanelColumns];
  std::fill_n(sums, n_rows * kPanelColumns, 0.0F);
  sum_panel(job, job.weight.data() + panel * job.depth * kStepBytes, first_row, n_rows, sums);
  const std::int64_t first = panel * kPanelColumns;
  const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, job.weight.n_out() - first);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    float* to = job.arguments.y + (first_row + r) * job.arguments.y_stride + first;
    const float* from = sums + r * kPanelColumns;
    if (job.arguments.accumulate) {
      for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
    } else {
      std::copy_n(from, columns, to);
    }
  }
}

}  // namespace

void matmul_with(const KernelTable& table, const PackedMatrix& weight, const MatmulArguments& arguments,
                 ThreadPool& pool) {
  const Multiplication job = prepare(table, weight, arguments, pool);
  const std::int64_t panels = (weight.n_out() + kPanelColumns - 1) / kPanelColumns;
  const std::int64_t shares = (arguments.n_rows + kMostTaskRows - 1) / kMostTaskRows;
  // The shares of one panel are neighbouring tasks: its weights are still in a cache.
  const auto task = [&](std::size_t index, int) {
    const auto share = static_cast<std::int64_t>(index) % shares;
    const std::int64_t begin = arguments.n_rows * share / shares, end = arguments.n_rows * (share + 1) / shares;
    multiply_panel(job, static_cast<std::int64_t>(index) / shares, begin, end - begin);
  };
  const auto n_tasks = static_cast<std::size_t>(panels * shares);
  const std::int64_t row_tiles = (arguments.n_rows + job.tile_rows - 1) / job.tile_rows;
  if (static_cast<std::int64_t>(weight.bytes()) * row_tiles < kBytesWorthThreads) {
    for (std::size_t i = 0; i < n_tasks; ++i) task(i, 0);
  } else {
    pool.parallel_for(n_tasks, std::cref(task));
  }
}

void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool) {
  matmul_with(kernel_table(), weight, {x, x_stride, n_rows, y, y_stride, accumulate, scratch}, pool);
}

// Four bytes a value: what widened bfloat16 takes.
std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_in) {
  return static_cast<std::size_t>((n_rows * (n_in + 1) * 4 + 63) / 64 * 64);
}

}  // namespace slip::kernels
