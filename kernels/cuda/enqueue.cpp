// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/enqueue.h"

#include "common/error.h"
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

constexpr std::int64_t kMostSharedBytes =
    160 * 1024;  // what a block may have on compute capability 8.0, the least we build for

void check_vocabulary(std::int32_t vocab, std::int64_t stride) {
  SLIP_CHECK(vocab > 0 && stride >= vocab, "rows of logits lie one after the other");
}

void check_pages(const DeviceKv& kv) {
  SLIP_CHECK(kv.base != nullptr && kv.n_kv_heads > 0 && kv.page_tokens > 0 && kv.head_dim > 0, "a cache has pages");
  SLIP_CHECK(kv.page_stride >= 2 * kv.value_offset(), "a page holds the keys and the values of a layer");
}

}  // namespace

DeviceFailure::DeviceFailure(cudaError_t error, const std::string& what)
    : std::runtime_error("cuda: " + what + ": " + cudaGetErrorString(error)) {}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw DeviceFailure(error, what);
}

void enqueue(const Embed& job, int n_rows, cudaStream_t stream) {
  SLIP_CHECK(n_rows >= 0 && job.n > 0 && !job.embedding.empty(), "an embedding has a width");
  if (n_rows > 0) check(launch_embed(job, n_rows, stream), "embed");
}

void enqueue(const RmsNorm& job, int n_rows, cudaStream_t stream) {
  SLIP_CHECK(n_rows >= 0 && job.n > 0 && job.x_stride >= job.n && !job.weight.empty(),
             "a row to normalise has a width");
  SLIP_CHECK(job.y == nullptr || job.y_stride >= job.n, "normalised rows do not overlap");
  if (n_rows > 0) check(launch_rms_norm(job, n_rows, stream), "rms_norm");
}

void enqueue(const RotateAndStore& job, int n_rows, cudaStream_t stream) {
  check_pages(job.kv);
  SLIP_CHECK(n_rows >= 0 && job.kv.head_dim % 2 == 0, "a head is turned in pairs");
  SLIP_CHECK(job.stride >= std::int64_t{job.n_heads + 2 * job.kv.n_kv_heads} * job.kv.head_dim,
             "a row holds its queries, keys and values");
  if (n_rows > 0) check(launch_rotate_and_store(job, n_rows, stream), "rotate_and_store");
}

void enqueue(const Matmul& job, cudaStream_t stream) {
  SLIP_CHECK(job.n_rows >= 0 && job.n_out > 0 && job.n_in > 0, "a product has a shape");
  SLIP_CHECK(!job.weight.empty() && job.activations != nullptr, "a product has operands");
  const bool pairs = job.epilogue == Epilogue::kGateUp;
  SLIP_CHECK(!pairs || job.n_out % (2 * kTileOutputs) == 0, "gates and ups stand in whole tiles");
  SLIP_CHECK(job.y == nullptr || job.y_stride >= (pairs ? job.n_out / 2 : job.n_out), "results do not overlap");
  SLIP_CHECK(job.y_activations == nullptr || (pairs ? job.n_out / 2 : job.n_out) % kTileDepth == 0,
             "the next product's last tile of depth would have a part that nobody writes");
  SLIP_CHECK(job.y_activations == nullptr || job.epilogue != Epilogue::kAdd, "activations are written, not added to");
  if (job.n_rows > 0) check(launch_matmul(job, stream), "matmul");
}

void enqueue(const Attention& job, const AttentionGrid& grid, cudaStream_t stream) {
  check_pages(job.kv);
  SLIP_CHECK(job.n_heads > 0 && job.n_heads % job.kv.n_kv_heads == 0, "each key head serves as many query heads");
  SLIP_CHECK(job.heads_a_tile > 0 && job.heads_a_tile <= job.group(), "a tile has heads of one key head");
  SLIP_CHECK(grid.rows_a_tile > 0 && grid.rows_a_tile <= kMostTileRows, "a tile has few rows");
  const std::int32_t n_queries = grid.rows_a_tile * job.heads_a_tile;
  SLIP_CHECK(attention_shared_bytes(job.kv.head_dim, n_queries, job.whole) <= kMostSharedBytes,
             "a tile fits a multiprocessor's shared memory");
  SLIP_CHECK(job.whole || (job.partial != nullptr && job.n_splits > 0), "splits need a place for their sums");
  SLIP_CHECK(job.q_stride >= job.width() && (job.out == nullptr || job.out_stride >= job.width()),
             "rows do not overlap");
  SLIP_CHECK(job.activations == nullptr || job.width() % kTileDepth == 0,
             "the next product's last tile of depth would have a part that nobody writes");
  if (grid.n_tiles == 0 || grid.n_rows == 0) return;
  check(launch_attention(job, grid.n_tiles, n_queries, stream), "attention");
  if (!job.whole) check(launch_combine_splits(job, grid.n_rows, stream), "combine_splits");
}

void enqueue(const MakeLaws& job, int n_rows, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.stride);
  if (n_rows > 0) check(launch_make_laws(job, n_rows, stream), "make_laws");
}

void enqueue(const GumbelParts& job, int n_rows, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.stride);
  if (n_rows > 0) check(launch_gumbel_parts(job, n_rows, stream), "gumbel_parts");
}

void enqueue(const DrawTokens& job, int n_rows, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.stride);
  if (n_rows > 0) check(launch_draw_tokens(job, n_rows, stream), "draw_tokens");
}

void enqueue(const Accept& job, int n_proposals, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.target_stride);
  SLIP_CHECK(job.draft_logits == nullptr || job.draft_stride >= job.vocab, "rows of logits lie one after the other");
  if (n_proposals > 0) check(launch_accept(job, n_proposals, stream), "accept");
}

void enqueue(const Observe& job, int n_rows, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.stride);
  SLIP_CHECK(job.k > 0 && job.k <= kMostKept && job.k <= job.vocab, "an observation keeps some of the vocabulary");
  if (n_rows > 0) check(launch_observe(job, n_rows, stream), "observe");
}

void enqueue(const FusedLoss& job, int n_rows, cudaStream_t stream) {
  check_vocabulary(job.vocab, job.stride);
  SLIP_CHECK(job.k >= 0 && job.k <= kMostKept && job.k <= job.vocab, "a lesson keeps some of the vocabulary");
  if (n_rows > 0) check(launch_fused_loss(job, n_rows, stream), "fused_loss");
}

}  // namespace slip::kernels::cuda
