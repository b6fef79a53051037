// SPDX-License-Identifier: Apache-2.0
// The operations of this folder as plain data: a queue enqueues them, a captured graph repeats them, a test runs them
// on the host.
#pragma once

#include <variant>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/logits_processors.cuh"
#include "kernels/cuda/loss.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/observe.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sample.cuh"

namespace slip::kernels::cuda {

// An operation on rows (or proposals) 0 … n_rows − 1, with separate blocks for each.
template <class Operation>
struct OnRows {
  Operation operation;
  int n_rows = 0;
};

// Attention of n_rows rows in n_tiles tiles of at most rows_a_tile; then merges the splits unless the job is `whole`.
struct AttentionGrid {
  int n_rows = 0, n_tiles = 0, rows_a_tile = 0;
};
struct TiledAttention {
  Attention operation;
  AttentionGrid grid;

  // The most queries of a tile
  std::int32_t n_queries() const { return grid.rows_a_tile * operation.heads_a_tile; }
};

using Job = std::variant<OnRows<Embed>, OnRows<RmsNorm>, OnRows<RotateAndStore>, Matmul, TiledAttention,
                         OnRows<ProcessLogits>, OnRows<MakeDistributions>, OnRows<GumbelParts>, OnRows<DrawTokens>,
                         OnRows<Accept>, OnRows<Observe>, OnRows<FusedLoss>>;

// Limit of a block's shared memory. Compute capability 8.0, the oldest that we build for, allows 163 KiB.
inline constexpr std::int64_t kMostSharedBytes = 160 * 1024;

// SLIP_CHECKs that the job neither reads nor writes out of bounds.
void check_job(const Job& job);
bool has_rows(const Job& job);

}  // namespace slip::kernels::cuda
