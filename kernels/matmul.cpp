// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "common/error.h"
#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

constexpr std::int64_t kMostSharing = 8;         // most tiles that divide the prefetching among them
constexpr std::int64_t kMostPanelsTogether = 4;  // their sums take at most 256 KiB
// Bytes of activations kept in cache, beside the weights of two stretches
constexpr std::int64_t kActivationsInCache = 1280 * 1024;
constexpr std::int64_t kTasksPerThread = 4;
constexpr std::int64_t kRowsWorthThreads = 16;  // fewer rows are converted without waking another thread
constexpr std::int64_t kRowsAtOnce = 4;         // rows that a thread converts at once
// Smaller weights are taken to stay in cache from one product to the next, as a draft's do
constexpr std::size_t kBytesInCache = std::size_t{3} << 20;
// Bytes of weights × row tiles; smaller products do not wake another thread
constexpr std::int64_t kBytesWorthThreads = 65536;

std::int64_t ceil_div(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

// A rectangle of neighbouring row tiles and neighbouring panels.
struct Share {
  std::int64_t first_tile, end_tile;
};
struct Panels {
  std::int64_t first, n;
};

struct Multiplication {
  Multiplication(const PackedMatrix& weights, const Activations& activations) : weight(weights), x(activations) {
    const KernelTable& table = x.table();
    const bool is_bf16 = weight.compute_dtype() == Dtype::kBFloat16;
    tile = is_bf16 ? table.matmul_bf16 : table.matmul_f32;
    end_tiles = is_bf16 ? table.end_bf16_tiles : nullptr;
    tile_rows = is_bf16 ? table.bf16_tile_rows : table.f32_tile_rows;
    stretch = is_bf16 ? table.bf16_stretch : table.f32_stretch;
    task_rows = is_bf16 ? table.bf16_task_rows : table.f32_task_rows;
    least_sharing = is_bf16 ? table.bf16_least_sharing : 1;
    streaming_rows = is_bf16 ? table.bf16_streaming_rows : 0;
    depth = is_bf16 ? ceil_div(weight.n_in(), 2) : weight.n_in();
    from_memory = weight.bytes() > kBytesInCache;
  }
  std::int64_t n_panels() const { return ceil_div(weight.n_out(), kPanelColumns); }
  std::int64_t share_rows(Share share) const { return x.first_row(share.end_tile) - x.first_row(share.first_tile); }
  // If the activations of the whole depth exceed the cache, those of one stretch serve several panels.
  std::int64_t panels_together(Share share) const {
    return share_rows(share) * x.row_bytes() > kActivationsInCache ? kMostPanelsTogether : 1;
  }

  const PackedMatrix& weight;
  const Activations& x;
  void (*tile)(const MatmulTile&);
  void (*end_tiles)();
  int tile_rows;
  std::int64_t stretch, depth;  // steps
  std::int64_t task_rows, least_sharing, streaming_rows;
  bool from_memory;  // the weights are not in cache
};

// The weights of a panel's stretch, and the weights needed next.
struct Stretch {
  std::int64_t panel;
  const std::byte* weight;
  const std::byte* next;
  std::int64_t depth;
};

// The parts into which row tiles divide the next stretch to prefetch it: a power of two, so that it divides a step.
// With more parts than tiles the last parts are left to the hardware.
std::int64_t parts_to_fetch(const Multiplication& job, Share share) {
  const std::int64_t n_tiles = share.end_tile - share.first_tile;
  if (n_tiles == 1) return job.share_rows(share) <= job.streaming_rows ? 0 : 1;
  const std::int64_t parts = std::clamp(n_tiles, job.least_sharing, kMostSharing);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(parts)));
}

// Prefetches weights while tiles compute on a stretch in cache, which would leave the memory idle. The first tiles
// divide the next stretch among them, whichever panel it belongs to. The hardware prefetcher alone does not overlap
// reads and arithmetic: four rows took 1.5 times the time of one instead of 1.2, on a Xeon with AVX512-BF16.
void fetch_share(const Stretch& stretch, MatmulTile& tile, std::int64_t t, std::int64_t n_sharing) {
  tile.next_weight = nullptr;
  if (t >= n_sharing) return;
  tile.next_step_bytes = kStepBytes / n_sharing;
  tile.next_weight = stretch.next + t * tile.depth * tile.next_step_bytes;
}

// The finished sums of a row tile of one panel. The consumer may change them.
struct PanelSums {
  std::int64_t panel, first_row, n_rows;
  float* sums;  // [n_rows, kPanelColumns]
};

// Adds one stretch, from step `at` on, to sums [rows of the share, kPanelColumns]. At the end of the depth each tile's
// sums are consumed at once, so writing them overlaps with the next tile's products.
template <class Take>
void add_stretch(const Multiplication& job, const Stretch& stretch, std::int64_t at, Share share, float* sums,
                 const Take& take) {
  const std::int64_t share_row = job.x.first_row(share.first_tile);
  MatmulTile tile;
  tile.weight = stretch.weight;
  tile.is_first = at == 0;
  tile.depth = stretch.depth;
  tile.x_stride_bytes = job.x.row_stride_bytes();
  const std::int64_t n_sharing = parts_to_fetch(job, share);
  tile.is_alone = share.end_tile - share.first_tile == 1;
  tile.from_memory = job.from_memory;
  for (std::int64_t t = share.first_tile; t < share.end_tile; ++t) {
    const std::int64_t row = job.x.first_row(t);
    tile.n_rows = static_cast<int>(job.x.first_row(t + 1) - row);
    tile.x = job.x.at(row, at);
    tile.sums = sums + (row - share_row) * kPanelColumns;
    fetch_share(stretch, tile, t - share.first_tile, n_sharing);
    job.tile(tile);
    if (at + stretch.depth == job.depth) take(PanelSums{stretch.panel, row, tile.n_rows, tile.sums});
  }
}

template <class Take>
void multiply_panels(const Multiplication& job, Panels panels, Share share, const Take& take) {
  const std::int64_t n_sums = job.share_rows(share) * kPanelColumns;
  alignas(64) float sums[kMostPanelsTogether * kMostTaskRows * kPanelColumns];
  const auto weight = [&](std::int64_t i, std::int64_t at) {
    return job.weight.data() + (panels.first + i) * job.weight.panel_bytes() + at * kStepBytes;
  };
  for (std::int64_t at = 0; at < job.depth; at += job.stretch) {
    const std::int64_t depth = std::min(job.stretch, job.depth - at);
    for (std::int64_t i = 0; i < panels.n; ++i) {
      const bool is_last = i + 1 == panels.n, ends = at + depth == job.depth;
      const std::byte* next = !is_last ? weight(i + 1, at) : ends ? weight(panels.n, 0) : weight(0, at + depth);
      add_stretch(job, {panels.first + i, weight(i, at), next, depth}, at, share, sums + i * n_sums, take);
    }
  }
}

// The fewest shares whose sums fit, but enough to keep every thread busy.
std::int64_t shares_of_a_panel(const Multiplication& job, int n_threads) {
  const std::int64_t least = ceil_div(job.x.n_tiles(), job.task_rows / job.tile_rows);
  const std::int64_t wanted = n_threads == 1 ? 1 : kTasksPerThread * n_threads / job.n_panels();
  return std::clamp(wanted, least, job.x.n_tiles());
}

template <class Take>
void multiply(const Multiplication& job, const Take& take, ThreadPool& pool) {
  SLIP_CHECK(job.x.compute_dtype() == job.weight.compute_dtype() && job.x.n_in() == job.weight.n_in(),
             "activations of another product");
  if (job.x.n_rows() == 0) return;
  const std::int64_t shares = shares_of_a_panel(job, pool.n_used()), n_panels = job.n_panels();
  // The panels of one share are adjacent, in memory too. Its activations stay in the second-level cache while the
  // weights stream through.
  const auto tasks = [&](std::size_t begin, std::size_t end, int) {
    for (auto index = static_cast<std::int64_t>(begin); index < static_cast<std::int64_t>(end);) {
      const std::int64_t at = index / n_panels, n_tiles = job.x.n_tiles();
      const Share share{n_tiles * at / shares, n_tiles * (at + 1) / shares};
      Panels panels{index % n_panels, job.panels_together(share)};
      panels.n = std::min({panels.n, n_panels - panels.first, static_cast<std::int64_t>(end) - index});
      multiply_panels(job, panels, share, take);
      index += panels.n;
    }
    if (job.end_tiles != nullptr) job.end_tiles();
  };
  const auto n_tasks = static_cast<std::size_t>(n_panels * shares);
  if (static_cast<std::int64_t>(job.weight.bytes()) * job.x.n_tiles() < kBytesWorthThreads) {
    tasks(0, n_tasks, 0);
  } else {
    pool.parallel_stretches(n_tasks, std::cref(tasks));
  }
}

void set_rows(const Activations& activations, const float* x, std::int64_t x_stride, ThreadPool& pool) {
  const std::int64_t n_rows = activations.n_rows();
  const auto set = [&](std::size_t index, int) {
    const auto first = static_cast<std::int64_t>(index) * kRowsAtOnce;
    for (std::int64_t row = first; row < std::min(first + kRowsAtOnce, n_rows); ++row) {
      activations.set_row(row, x + row * x_stride);
    }
  };
  const auto n_tasks = static_cast<std::size_t>(ceil_div(n_rows, kRowsAtOnce));
  if (n_rows >= kRowsWorthThreads) {
    pool.parallel_for(n_tasks, std::cref(set));
  } else {
    for (std::size_t i = 0; i < n_tasks; ++i) set(i, 0);
  }
}

}  // namespace

void matmul(const PackedMatrix& weight, const Activations& x, const MatmulOutput& output, ThreadPool& pool) {
  const auto write = [&](const PanelSums& panel) {
    const std::int64_t first = panel.panel * kPanelColumns;
    const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, weight.n_out() - first);
    for (std::int64_t r = 0; r < panel.n_rows; ++r) {
      float* to = output.y + (panel.first_row + r) * output.y_stride + first;
      const float* from = panel.sums + r * kPanelColumns;
      if (output.accumulate) {
        x.table().add(to, from, columns);
      } else {
        std::copy_n(from, columns, to);
      }
    }
  };
  multiply(Multiplication(weight, x), write, pool);
}

void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool) {
  const Activations activations(weight.compute_dtype(), n_rows, weight.n_in(), scratch);
  set_rows(activations, x, x_stride, pool);
  matmul(weight, activations, {y, y_stride, accumulate}, pool);
}

std::vector<MatrixRows> gated_parts(const MatrixRows& gate, const MatrixRows& up, std::int64_t n_in) {
  std::vector<MatrixRows> parts;
  for (std::int64_t row = 0; row < gate.n_out; row += kGatedRows) {
    const std::int64_t n = std::min(kGatedRows, gate.n_out - row);
    for (const MatrixRows* from : {&gate, &up}) {
      const auto offset = static_cast<std::size_t>(row * n_in) * dtype_bytes(from->dtype);
      parts.push_back({static_cast<const std::byte*>(from->data) + offset, from->dtype, n});
      if (n < kGatedRows) parts.push_back({nullptr, from->dtype, kGatedRows - n});
    }
  }
  return parts;
}

void gated_matmul(const PackedMatrix& gate_up, std::span<const float> bias, const Activations& x, const Activations& to,
                  ThreadPool& pool) {
  static_assert(2 * kGatedRows == kPanelColumns && kGatedRows % Activations::kBlockValues == 0);
  SLIP_CHECK(gate_up.n_out() == ceil_div(to.n_in(), kGatedRows) * kPanelColumns, "a weight of gated_parts()");
  SLIP_CHECK(to.n_rows() == x.n_rows() && to.n_tiles() == x.n_tiles(), "as many rows, of the same format");
  const KernelTable& table = x.table();
  const auto gate = [&](const PanelSums& panel) {
    const std::int64_t first = panel.panel * kGatedRows, n = std::min(kGatedRows, to.n_in() - first);
    for (std::int64_t r = 0; r < panel.n_rows; ++r) {
      float* gates = panel.sums + r * kPanelColumns;
      float* ups = gates + kGatedRows;
      if (!bias.empty()) {
        table.add(gates, bias.data() + first, n);
        table.add(ups, bias.data() + to.n_in() + first, n);
      }
      table.silu_multiply(gates, ups, n);
    }
    to.set_values({panel.first_row, panel.n_rows, first, n}, panel.sums, kPanelColumns);
  };
  multiply(Multiplication(gate_up, x), gate, pool);
}

}  // namespace slip::kernels
