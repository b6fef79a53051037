// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/jobs.h"

#include "common/error.h"

namespace slip::kernels::cuda {
namespace {

void check_vocabulary(std::int32_t vocab, std::int64_t stride) {
  SLIP_CHECK(vocab > 0 && stride >= vocab, "rows of logits lie one after the other");
}

void check_pages(const DeviceKv& kv) {
  SLIP_CHECK(kv.base != nullptr && kv.n_kv_heads > 0 && kv.page_tokens > 0 && kv.head_dim > 0, "a cache has pages");
  SLIP_CHECK(kv.page_stride >= 2 * kv.value_offset(), "a page holds the keys and the values of a layer");
}

void check(const Embed& job) {
  SLIP_CHECK(job.n > 0 && !job.embedding.empty(), "an embedding has a width");
}

void check(const RmsNorm& job) {
  SLIP_CHECK(job.n > 0 && job.x_stride >= job.n && !job.weight.empty(), "a row to normalise has a width");
  SLIP_CHECK(job.y == nullptr || job.y_stride >= job.n, "normalised rows do not overlap");
}

void check(const RotateAndStore& job) {
  check_pages(job.kv);
  SLIP_CHECK(job.kv.head_dim % 2 == 0, "a head is turned in pairs");
  SLIP_CHECK(job.stride >= std::int64_t{job.n_heads + 2 * job.kv.n_kv_heads} * job.kv.head_dim,
             "a row holds its queries, keys and values");
}

void check(const ProcessLogits& job) {
  check_vocabulary(job.vocab, job.stride);
  check_vocabulary(job.vocab, job.processed_stride);
  SLIP_CHECK(job.processed != job.logits, "the raw logits are observed and told after the logits processors");
}

void check(const MakeDistributions& job) {
  check_vocabulary(job.vocab, job.stride);
}

void check(const GumbelParts& job) {
  check_vocabulary(job.vocab, job.stride);
}

void check(const DrawTokens& job) {
  check_vocabulary(job.vocab, job.stride);
}

void check(const Accept& job) {
  check_vocabulary(job.vocab, job.target_stride);
}

void check(const Observe& job) {
  check_vocabulary(job.vocab, job.stride);
  SLIP_CHECK(job.top_k > 0 && job.top_k <= kMostKept && job.top_k <= job.vocab,
             "an observation keeps some of the vocabulary");
}

void check(const FusedLoss& job) {
  check_vocabulary(job.vocab, job.stride);
  SLIP_CHECK(job.top_k >= 0 && job.top_k <= kMostKept && job.top_k <= job.vocab,
             "a lesson keeps some of the vocabulary");
}

// Checks of each kind of job. More specialized overloads come first.
struct CheckOne {
  template <class Operation>
  void operator()(const OnRows<Operation>& job) const {
    SLIP_CHECK(job.n_rows >= 0, "a number of rows");
    check(job.operation);
  }
  void operator()(const Matmul& job) const {
    SLIP_CHECK(job.n_rows >= 0 && job.n_out > 0 && job.n_in > 0, "a product has a shape");
    SLIP_CHECK(!job.weight.empty() && job.activations != nullptr, "a product has operands");
    SLIP_CHECK(job.row_weights.alike || job.row_weights.of_tile != nullptr,
               "weights that differ between tiles stand in a table");
    const bool pairs = job.epilogue == Epilogue::kGateUp;
    SLIP_CHECK(!pairs || job.n_out % (2 * kTileOutputs) == 0, "gates and ups stand in whole tiles");
    SLIP_CHECK(job.y == nullptr || job.y_stride >= (pairs ? job.n_out / 2 : job.n_out), "results do not overlap");
    SLIP_CHECK(job.y_activations == nullptr || (pairs ? job.n_out / 2 : job.n_out) % kTileDepth == 0,
               "the next product's last tile of depth would have an unwritten part");
    SLIP_CHECK(job.y_activations == nullptr || job.epilogue != Epilogue::kAdd, "activations are written, not added to");
  }
  void operator()(const TiledAttention& tiled) const {
    const Attention& job = tiled.operation;
    check_pages(job.kv);
    SLIP_CHECK(job.n_heads > 0 && job.n_heads % job.kv.n_kv_heads == 0, "each key head serves as many query heads");
    SLIP_CHECK(job.heads_a_tile > 0 && job.heads_a_tile <= job.group(), "a tile has heads of one key head");
    SLIP_CHECK(tiled.n_queries() > 0 && tiled.n_queries() <= kTileQueries, "a tile has few queries");
    SLIP_CHECK(attention_shared_bytes(job.kv.head_dim, job.whole) <= kMostSharedBytes,
               "a tile fits a multiprocessor's shared memory");
    SLIP_CHECK(job.whole || (job.partial != nullptr && job.n_splits > 0), "splits need a place for their sums");
    SLIP_CHECK(job.q_stride >= job.width() && (job.out == nullptr || job.out_stride >= job.width()),
               "rows do not overlap");
  }
};

struct HasRows {
  template <class Operation>
  bool operator()(const OnRows<Operation>& job) const {
    return job.n_rows > 0;
  }
  bool operator()(const Matmul& job) const { return job.n_rows > 0; }
  bool operator()(const TiledAttention& job) const { return job.grid.n_tiles > 0 && job.grid.n_rows > 0; }
};

}  // namespace

void check_job(const Job& job) {
  std::visit(CheckOne{}, job);
}

bool has_rows(const Job& job) {
  return std::visit(HasRows{}, job);
}

}  // namespace slip::kernels::cuda
