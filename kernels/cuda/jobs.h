// SPDX-License-Identifier: Apache-2.0
// The operations of this folder as plain data: what a queue is given, what a captured graph repeats, and what a test
// runs on the host.
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

// An operation on rows 0 … n_rows − 1, or proposals, each by blocks of its own.
template <class Operation>
struct OnRows {
  Operation operation;
  int n_rows = 0;
};

// Of n_rows rows in n_tiles tiles of at most rows_a_tile; merges the splits, if they are to be.
struct AttentionGrid {
  int n_rows = 0, n_tiles = 0, rows_a_tile = 0;
};
struct TiledAttention {
  Attention operation;
  AttentionGrid grid;

  std::int32_t n_queries() const { return grid.rows_a_tile * operation.heads_a_tile; }  // the most a tile has
};

using Job = std::variant<OnRows<Embed>, OnRows<RmsNorm>, OnRows<RotateAndStore>, Matmul, TiledAttention,
                         OnRows<ProcessLogits>, OnRows<MakeDistributions>, OnRows<GumbelParts>, OnRows<DrawTokens>,
                         OnRows<Accept>, OnRows<Observe>, OnRows<FusedLoss>>;

// What a block may have of shared memory on compute capability 8.0, the least we build for.
inline constexpr std::int64_t kMostSharedBytes = 160 * 1024;

// SLIP_CHECKs what would read or write out of bounds: our bugs.
void check_job(const Job& job);
bool has_rows(const Job& job);

}  // namespace slip::kernels::cuda
