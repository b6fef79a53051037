// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <functional>

#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

constexpr std::int64_t kStepBytes = kPanelColumns * 4;  // of weights, in both number formats
constexpr std::int64_t kFetchAhead = 64;                // steps that a lone tile's fetching is ahead of its products
constexpr std::int64_t kMostTaskRows = 256;             // their sums are 64 KiB
constexpr std::int64_t kTasksPerThread = 4;
constexpr std::int64_t kRowsWorthThreads = 16;      // fewer rows are converted before another thread would wake
constexpr std::int64_t kBytesWorthThreads = 65536;  // of weights × row tiles; less is done before another thread wakes

std::int64_t ceil_div(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

// The rows of x are dealt out evenly to tiles. A tile's activations lie together, in blocks of depth.
struct Multiplication {
  const KernelTable& table;
  const PackedMatrix& weight;
  const MatmulArguments& arguments;
  void (*tile)(const MatmulTile&) = nullptr;
  int tile_rows = 0;
  std::int64_t stretch = 0;  // steps
  std::int64_t depth = 0;
  std::int64_t n_tiles = 0;
  const std::byte* x = nullptr;     // as the tile wants it
  std::int64_t row_bytes = 0;       // of x, from one row's beginning to the next
  std::int64_t x_stride_bytes = 0;  // within a block
  std::int64_t x_step_bytes = 0;
  bool in_blocks = false;

  std::int64_t first_row(std::int64_t tile_index) const { return arguments.n_rows * tile_index / n_tiles; }
  std::int64_t n_panels() const { return ceil_div(weight.n_out(), kPanelColumns); }
};

void use_rows_as_they_are(Multiplication& job) {
  job.tile = job.table.matmul_f32;
  job.tile_rows = job.table.f32_tile_rows;
  job.stretch = job.table.f32_stretch;
  job.depth = job.weight.n_in();
  job.x = reinterpret_cast<const std::byte*>(job.arguments.x);
  job.x_step_bytes = 4;
  job.row_bytes = job.x_stride_bytes = job.arguments.x_stride * 4;
}

void use_converted_rows(Multiplication& job) {
  const KernelTable& table = job.table;
  const std::int64_t block = table.bf16_block_steps;
  job.tile = table.matmul_bf16;
  job.tile_rows = table.bf16_tile_rows;
  job.stretch = table.bf16_stretch;
  job.depth = ceil_div(job.weight.n_in(), 2);
  job.x = static_cast<const std::byte*>(job.arguments.scratch);
  job.x_step_bytes = table.bf16_pair_bytes;
  job.in_blocks = block > 0;
  job.row_bytes = (job.in_blocks ? ceil_div(job.depth, block) * block : job.depth) * job.x_step_bytes;
  job.x_stride_bytes = job.in_blocks ? block * job.x_step_bytes : job.row_bytes;
}

void convert_rows(const Multiplication& job, ThreadPool& pool) {
  const MatmulArguments& arguments = job.arguments;
  const auto convert = [&](std::size_t index, int) {
    const auto t = static_cast<std::int64_t>(index);
    const std::int64_t begin = job.first_row(t);
    job.table.bf16_activations(arguments.x + begin * arguments.x_stride, arguments.x_stride,
                               static_cast<int>(job.first_row(t + 1) - begin), job.weight.n_in(),
                               static_cast<std::byte*>(arguments.scratch) + begin * job.row_bytes);
  };
  if (arguments.n_rows >= kRowsWorthThreads) {
    pool.parallel_for(static_cast<std::size_t>(job.n_tiles), std::cref(convert));
  } else {
    for (std::int64_t t = 0; t < job.n_tiles; ++t) convert(static_cast<std::size_t>(t), 0);
  }
}

Multiplication prepare(const KernelTable& table, const PackedMatrix& weight, const MatmulArguments& arguments,
                       ThreadPool& pool) {
  Multiplication job{table, weight, arguments};
  const bool is_bf16 = weight.compute_dtype() == Dtype::kBFloat16;
  is_bf16 ? use_converted_rows(job) : use_rows_as_they_are(job);
  job.n_tiles = ceil_div(arguments.n_rows, job.tile_rows);
  if (is_bf16) convert_rows(job, pool);
  return job;
}

// Tiles that work on a stretch of weights from the cache leave the memory idle: the first of them share out the next
// stretch and fetch it, whichever panel it belongs to. A single tile does too, from a little ahead of its own place:
// left to the processor's own prefetching, its reads and its arithmetic took turns (four rows at 1.5 times the time of
// one instead of 1.2, on a Xeon with AVX512-BF16).
void fetch_share(const Multiplication& job, MatmulTile& tile, std::int64_t t, std::int64_t n_tiles) {
  const std::int64_t n_sharing = n_tiles >= 4 ? 4 : n_tiles >= 2 ? 2 : 1;
  tile.next_weight = nullptr;
  if (t >= n_sharing) return;
  const std::int64_t ahead = n_sharing == 1 ? kFetchAhead : job.stretch;
  tile.next_step_bytes = kStepBytes / n_sharing;
  tile.next_weight = tile.weight + ahead * kStepBytes + t * tile.depth * tile.next_step_bytes;
}

// Neighbouring tiles of rows.
struct Share {
  std::int64_t first_tile, end_tile;
};

// sums [rows of the share, kPanelColumns] over the panel's whole depth.
void sum_panel(const Multiplication& job, const std::byte* panel, Share share, float* sums) {
  const std::int64_t share_row = job.first_row(share.first_tile);
  for (std::int64_t at = 0; at < job.depth; at += job.stretch) {
    MatmulTile tile;
    tile.weight = panel + at * kStepBytes;
    tile.depth = std::min(job.stretch, job.depth - at);
    tile.x_stride_bytes = job.x_stride_bytes;
    for (std::int64_t t = share.first_tile; t < share.end_tile; ++t) {
      const std::int64_t row = job.first_row(t);
      tile.n_rows = static_cast<int>(job.first_row(t + 1) - row);
      tile.x = job.x + row * job.row_bytes + at * job.x_step_bytes * (job.in_blocks ? tile.n_rows : 1);
      tile.sums = sums + (row - share_row) * kPanelColumns;
      fetch_share(job, tile, t - share.first_tile, share.end_tile - share.first_tile);
      job.tile(tile);
    }
  }
}

void multiply_panel(const Multiplication& job, std::int64_t panel, Share share) {
  const std::int64_t first_row = job.first_row(share.first_tile);
  const std::int64_t n_rows = job.first_row(share.end_tile) - first_row;
  alignas(64) float sums[kMostTaskRows * kPanelColumns];
  std::fill_n(sums, n_rows * kPanelColumns, 0.0F);
  sum_panel(job, job.weight.data() + panel * job.depth * kStepBytes, share, sums);
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

// As few as the sums' place allows, but enough that every thread has some to do.
std::int64_t shares_of_a_panel(const Multiplication& job, int n_threads) {
  const std::int64_t least = ceil_div(job.n_tiles, kMostTaskRows / job.tile_rows);
  const std::int64_t wanted = n_threads == 1 ? 1 : kTasksPerThread * n_threads / job.n_panels();
  return std::clamp(wanted, least, job.n_tiles);
}

}  // namespace

void matmul_with(const KernelTable& table, const PackedMatrix& weight, const MatmulArguments& arguments,
                 ThreadPool& pool) {
  if (arguments.n_rows == 0) return;
  const Multiplication job = prepare(table, weight, arguments, pool);
  const std::int64_t shares = shares_of_a_panel(job, pool.n_threads());
  // The shares of one panel are neighbouring tasks, whose weights are still in a cache, and panels follow each other in
  // memory as they do in a stretch of tasks.
  const auto tasks = [&](std::size_t begin, std::size_t end, int) {
    for (auto index = static_cast<std::int64_t>(begin); index < static_cast<std::int64_t>(end); ++index) {
      const std::int64_t share = index % shares;
      multiply_panel(job, index / shares, {job.n_tiles * share / shares, job.n_tiles * (share + 1) / shares});
    }
  };
  const auto n_tasks = static_cast<std::size_t>(job.n_panels() * shares);
  if (static_cast<std::int64_t>(weight.bytes()) * job.n_tiles < kBytesWorthThreads) {
    tasks(0, n_tasks, 0);
  } else {
    pool.parallel_stretches(n_tasks, std::cref(tasks));
  }
}

void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool) {
  matmul_with(kernel_table(), weight, {x, x_stride, n_rows, y, y_stride, accumulate, scratch}, pool);
}

// What the class that wants most takes: four bytes a value, or blocks of 64 bytes.
std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_in) {
  constexpr std::int64_t kBlockBytes = 64;
  return static_cast<std::size_t>(n_rows * ((n_in + 1) * 4 + kBlockBytes - 1) / kBlockBytes * kBlockBytes +
                                  n_rows * kBlockBytes);
}

}  // namespace slip::kernels
