// SPDX-License-Identifier: Apache-2.0
// y = x · Wᵀ with the tensor-core instruction; the weights are streamed once for up to 64 rows. A block owns one or two
// tiles of 16 outputs. Its eight warps take tiles of depth 16 in turn, and their sums are added in the order of the
// warps. An output's order of accumulation thus depends on n_in alone, not on the rows or the tiles per block.
#pragma once

#include "kernels/cuda/early_start.cuh"
#include "kernels/cuda/matrix_instruction.cuh"
#include "kernels/cuda/weights.cuh"

namespace slip::kernels::cuda {

inline constexpr int kMatmulThreads = 256;
inline constexpr int kMostRowTiles = 8;  // 64 rows per block
using MatmulBlock = Block<kMatmulThreads>;

enum class Epilogue : std::uint8_t {
  kStore,   // y = sum + bias
  kAdd,     // y += sum + bias
  kGateUp,  // y = silu(gate) · up; output tile 2 i holds 16 gates, tile 2 i + 1 their ups; n_out counts both
};

struct Matmul {
  Weight<std::uint16_t> weight;  // packed by weight_at()
  RowWeights row_weights;        // if rows differ in their model, weights are read once per eight rows
  // Packed by activation_at(); zero from n_in to the end of the last tile
  const std::uint16_t* activations = nullptr;
  Weight<float> bias;  // [n_out], in packed order; empty: none
  std::int64_t n_rows = 0, n_out = 0, n_in = 0;
  Epilogue epilogue = Epilogue::kStore;
  float* y = nullptr;  // [n_rows, n_out or n_out / 2] float32; null: not wanted
  std::int64_t y_stride = 0;
  const std::int32_t* y_rows = nullptr;    // row i goes to row y_rows[i] of y; negative: dropped; null: row i
  std::uint16_t* y_activations = nullptr;  // the result as activations of the next product; null: not wanted
};

// Asynchronous copies of 8 or 16 bytes from global to shared memory (PTX ISA, cp.async). Writes zeros unless `there`.
// On the host: plain copies.
template <class Part>
SLIP_DEVICE void fetch(Part* to, const std::uint16_t* from, bool there) {
  static_assert(sizeof(Part) == 8 || sizeof(Part) == 16);
#if defined(__CUDA_ARCH__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = there ? static_cast<int>(sizeof(Part)) : 0;
  if constexpr (sizeof(Part) == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
  }
#else
  *to = Part{};
  if (there) __builtin_memcpy(to, from, sizeof *to);
#endif
}
SLIP_DEVICE void end_of_stage() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kStill>
SLIP_DEVICE void wait_for_stages() {  // until at most kStill stages are in flight
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kStill) : "memory");
#endif
}

// Stages in flight. Two or three blocks per multiprocessor have 60 to 100 KB in flight; 4.8 TB/s over 132
// multiprocessors at 0.7 µs latency needs 25 KB each.
template <int kRowTiles>
inline constexpr int kStages = kRowTiles <= 2 ? 8 : 4;

// Whether a product is so small that the gap between kernels counts: then it starts early and fetches weights of some
// stages before the kernel that makes the activations is complete. All of these arrive before the first multiplication,
// which would cost a large product more than the gap.
SLIP_DEVICE bool starts_early(const Matmul& job) {
  constexpr std::int64_t kMostWeights = std::int64_t{1} << 21;
  return job.n_out * job.n_in <= kMostWeights;
}
template <int kRowTiles>
inline constexpr int kEarlyStages = kRowTiles <= 2 ? 4 : 0;

// Stages [stage][tile][thread]; afterwards each warp's sums [warp][tile][row tile][lane].
template <int kTiles, int kRowTiles>
union MatmulShared {  // a lane fetches only its own data, so it waits for its own copies only
  struct {
    OperandA weight[kStages<kRowTiles>][kTiles][kMatmulThreads];
    OperandB activations[kStages<kRowTiles>][kRowTiles][kMatmulThreads];
  } stages;
  SumPart sums[MatmulBlock::kWarps][kTiles][kRowTiles][kWarp];
};

template <int kTiles, int kRowTiles>
struct LaneSums {
  SumPart of[kTiles][kRowTiles];
};

// The output tiles and rows of a block.
struct MatmulPlace {
  const std::uint16_t* weight;
  const float* bias;  // null: none
  std::int64_t first_tile, first_row, depth;
};

// Fetch a thread's weights and activations of round `round`, in which each warp has its own tile of depth.
template <int kTiles, int kRowTiles>
SLIP_DEVICE void fetch_weights(const Matmul& job, const MatmulPlace& place, std::int64_t round, int thread,
                               MatmulShared<kTiles, kRowTiles>& shared) {
  const std::int64_t k_tile = round * MatmulBlock::kWarps + thread / kWarp;
  const int lane = thread % kWarp, stage = static_cast<int>(round % kStages<kRowTiles>);
  SLIP_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const std::int64_t tile = place.first_tile + t;
    const bool there = tile < output_tiles(job.n_out) && k_tile < place.depth;
    const std::int64_t part = there ? (tile * place.depth + k_tile) * kWarp + lane : 0;
    fetch(&shared.stages.weight[stage][t][thread], place.weight + part * kWeightsALane, there);
  }
}
template <int kTiles, int kRowTiles>
SLIP_DEVICE void fetch_activations(const Matmul& job, const MatmulPlace& place, std::int64_t round, int thread,
                                   MatmulShared<kTiles, kRowTiles>& shared) {
  const std::int64_t k_tile = round * MatmulBlock::kWarps + thread / kWarp;
  const int lane = thread % kWarp, stage = static_cast<int>(round % kStages<kRowTiles>);
  SLIP_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    const std::int64_t row = place.first_row + r * kTileRows + lane / 4;
    const bool there = row < job.n_rows && k_tile < place.depth;
    const std::int64_t part = there ? (row / kTileRows * place.depth + k_tile) * kWarp + lane : 0;
    fetch(&shared.stages.activations[stage][r][thread], job.activations + part * kActivationsALane, there);
  }
}

// Every warp multiplies its parts of an arrived stage.
template <int kTiles, int kRowTiles>
SLIP_DEVICE void multiply_stage(int stage, const MatmulShared<kTiles, kRowTiles>& shared,
                                MatmulBlock::Per<LaneSums<kTiles, kRowTiles>>& sums) {
#if defined(__CUDA_ARCH__)
  const int thread = static_cast<int>(threadIdx.x);
  SLIP_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const OperandA weight = shared.stages.weight[stage][t][thread];
    SLIP_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      multiply_tile(weight, shared.stages.activations[stage][r][thread], sums[0].of[t][r]);
    }
  }
#else
  for (int first = 0; first < kMatmulThreads; first += kWarp) {
    for (int t = 0; t < kTiles; ++t) {
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_tile_of_warp(&shared.stages.weight[stage][t][first], &shared.stages.activations[stage][r][first],
                              [&](int lane) -> SumPart& { return sums[first + lane].of[t][r]; });
      }
    }
  }
#endif
}

// Adds the warps' sums of one element, in order.
template <int kTiles, int kRowTiles>
SLIP_DEVICE float total_of(const MatmulShared<kTiles, kRowTiles>& shared, int tile, int row_tile, int lane, int i) {
  float total = shared.sums[0][tile][row_tile][lane].of[i];
  for (int warp = 1; warp < MatmulBlock::kWarps; ++warp) total = total + shared.sums[warp][tile][row_tile][lane].of[i];
  return total;
}

SLIP_DEVICE void write_output(const Matmul& job, std::int64_t row, std::int64_t output, std::int64_t n, float value) {
  const std::int64_t y_row = job.y_rows == nullptr ? row : job.y_rows[row];
  if (job.y != nullptr && y_row >= 0) {
    float* to = job.y + y_row * job.y_stride + output;
    *to = job.epilogue == Epilogue::kAdd ? *to + value : value;
  }
  if (job.y_activations != nullptr) job.y_activations[activation_at(row, output, n)] = round_to_bf16(value);
}

// The row and the output of element i of a lane's sums, counted from those of the tiles.
SLIP_DEVICE int row_of_element(int lane, int i) {
  return lane % 4 * 2 + i % 2;
}
SLIP_DEVICE int output_of_element(int lane, int i) {
  return lane / 4 + i / 2 * 8;
}

// Takes the sum of output `within` of tile `tile`; for gates, of the same output of the next tile, too.
SLIP_DEVICE void finish(const Matmul& job, const float* bias, std::int64_t row, std::int64_t tile, int within,
                        float sum, float next_sum) {
  const std::int64_t output = tile * kTileOutputs + within;
  if (row >= job.n_rows || output >= job.n_out) return;
  if (bias != nullptr) sum = sum + bias[output];
  if (job.epilogue != Epilogue::kGateUp) return write_output(job, row, output, job.n_out, sum);
  if (bias != nullptr) next_sum = next_sum + bias[output + kTileOutputs];
  write_output(job, row, tile / 2 * kTileOutputs + within, job.n_out / 2, silu(sum) * next_sum);
}

template <int kTiles, int kRowTiles>
SLIP_DEVICE void finish_element(const Matmul& job, const MatmulShared<kTiles, kRowTiles>& shared,
                                const MatmulPlace& place, int element) {
  // element: [row tile][tile][lane][4]
  const int i = element % 4, lane = element / 4 % kWarp;
  const int tile = element / (4 * kWarp) % kTiles, row_tile = element / (4 * kWarp * kTiles);
  if (job.epilogue == Epilogue::kGateUp && tile % 2 == 1) return;
  const float next_sum =
      kTiles == 2 && job.epilogue == Epilogue::kGateUp ? total_of(shared, kTiles - 1, row_tile, lane, i) : 0.0F;
  finish(job, place.bias, place.first_row + row_tile * kTileRows + row_of_element(lane, i), place.first_tile + tile,
         output_of_element(lane, i), total_of(shared, tile, row_tile, lane, i), next_sum);
}

// Grid (x, y): output tiles from x · kTiles on, rows from y · 8 · kRowTiles on, all of one model.
template <int kTiles, int kRowTiles>
SLIP_DEVICE void matmul(const MatmulBlock& block, const Matmul& job, MatmulShared<kTiles, kRowTiles>& shared) {
  const std::int64_t first_row = static_cast<std::int64_t>(block.y) * kTileRows * kRowTiles;
  if (job.row_weights.skips(first_row)) return wait_for_previous();
  const MatmulPlace place{job.row_weights.find(job.weight, first_row), job.row_weights.find(job.bias, first_row),
                          static_cast<std::int64_t>(block.x) * kTiles, first_row, depth_tiles(job.n_in)};
  MatmulBlock::Per<LaneSums<kTiles, kRowTiles>> sums;
  block.each_apart([&](int thread) {
    SLIP_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      SLIP_UNROLL
      for (int r = 0; r < kRowTiles; ++r) sums[thread].of[t][r] = SumPart{};
    }
  });
  constexpr int kInFlight = kStages<kRowTiles> - 1;
  const int n_early = starts_early(job) ? kEarlyStages<kRowTiles> : 0;
  for (int round = 0; round < n_early; ++round) {
    block.each_apart([&](int thread) { fetch_weights(job, place, round, thread, shared); });
  }
  wait_for_previous();
  for (int round = 0; round < kInFlight; ++round) {
    block.each_apart([&](int thread) {
      if (round >= n_early) fetch_weights(job, place, round, thread, shared);
      fetch_activations(job, place, round, thread, shared);
    });
    end_of_stage();
  }
  const std::int64_t n_rounds = (place.depth + MatmulBlock::kWarps - 1) / MatmulBlock::kWarps;
  for (std::int64_t round = 0; round < n_rounds; ++round) {
    wait_for_stages<kInFlight - 1>();
    multiply_stage(static_cast<int>(round % kStages<kRowTiles>), shared, sums);
    block.each_apart([&](int thread) {
      fetch_weights(job, place, round + kInFlight, thread, shared);
      fetch_activations(job, place, round + kInFlight, thread, shared);
    });
    end_of_stage();
  }
  let_next_start();
  wait_for_stages<0>();
  block.each([](int) {});  // the sums overwrite the stages
  block.each([&](int thread) {
    SLIP_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      SLIP_UNROLL
      for (int r = 0; r < kRowTiles; ++r) shared.sums[thread / kWarp][t][r][thread % kWarp] = sums[thread].of[t][r];
    }
  });
  block.each_apart([&](int thread) {
    for (int element = thread; element < kRowTiles * kTiles * kWarp * 4; element += kMatmulThreads) {
      finish_element(job, shared, place, element);
    }
  });
}

}  // namespace slip::kernels::cuda
