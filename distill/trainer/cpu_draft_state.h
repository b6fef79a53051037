// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "common/aligned_memory.h"
#include "common/tensor_view.h"
#include "distill/trainer/cpu_draft.h"
#include "distill/trainer/packed_sequences.h"
#include "engine/models/rope.h"
#include "kernels/matmul.h"
#include "kernels/thread_pool.h"

namespace slip {

// The buffers of a CpuDraft and the steps of its two passes; only for the cpu_draft*.cpp files. A slope is the gradient
// of the loss with respect to the value that it is named after. All matrices are row-major float32; "n" counts rows.
// Threads: one owner, which calls into the pool.
struct CpuDraft::State {
  // A buffer that grows to the largest requested size and never shrinks. Growing discards its content.
  class Floats {
   public:
    // Room for n values, uninitialized. Throws std::bad_alloc.
    float* of(std::int64_t n);
    float* zeros(std::int64_t n);
    float* get() const { return reinterpret_cast<float*>(memory_.get()); }
    std::size_t bytes() const { return bytes_; }

   private:
    AlignedMemory memory_;
    std::size_t bytes_ = 0;
  };

  // The rows for which a layer computes outputs, sequence after sequence. Each row attends to the keys up to its own
  // position.
  struct Queries {
    struct Stretch {
      std::int64_t row = 0;   // index of its first row among all rows
      std::int64_t at = 0;    // index of its first row among the queries
      std::int64_t n = 0;     // number of queries
      std::int64_t from = 0;  // position of its first row in the sequence
    };
    std::vector<Stretch> stretches;  // [n_seq]
    std::int64_t n = 0;

    void add(std::int64_t row, std::int64_t from, std::int64_t n_queries);
    // to [n, width] = the queries' rows of `rows` [n_row, width].
    void gather(const float* rows, std::int64_t width, float* to) const;
    // The queries' rows of `rows` [n_row, width] = from [n, width].
    void scatter(const float* from, std::int64_t width, float* rows) const;
  };

  // A matrix [n_out, n_in], one of those that are stacked for a single product.
  struct Part {
    TrainedWeights::Matrix matrix;
    std::int64_t n_out = 0, n_in = 0;
  };
  struct LayerParts {
    std::array<Part, 1> q;
    std::array<Part, 2> kv;
    std::array<Part, 1> out;
    std::array<Part, 2> gate_up;
    std::array<Part, 1> down;
  };
  struct PackedLayer {
    kernels::PackedMatrix q, kv, out, gate_up, down;
  };

  // Intermediate values of a layer for some of its rows, [n, …] each.
  struct QueryRows {
    Floats normed, q, log_sums, mixed, attended, ffn_in, gate_up, gated;
    std::size_t bytes() const;
  };
  // Intermediate values of a layer for all rows, [n_row, …].
  struct LayerRows {
    Floats x, normed, kv;
    QueryRows kept;
    bool all_rows = false;  // true: all rows have gradients; false: only the wanted ones
  };

  State(const ModelConfig& model, Dtype dtype, int threads);

  // Sets `all`, `wanted`, `context` and `tokens`. REQUIRES: sequences within the draft's context.
  void plan(const PackedSequences& input);
  const Queries& with_gradient(const LayerRows& layer) const { return layer.all_rows ? all : wanted; }

  // cpu_draft.cpp: the forward pass without attention, and what both passes use.
  LayerParts parts_of(const TrainedWeights::Layer& layer) const;
  static std::vector<kernels::MatrixRows> rows_of(std::span<const Part> parts);
  kernels::PackedMatrix pack(std::span<const Part> parts) const { return {rows_of(parts), parts[0].n_in, products}; }
  // y [n, n_out] = x [n, n_in] weightᵀ; with `accumulate`, y += it. May pause before.
  void multiply(const kernels::PackedMatrix& weight, const float* x, std::int64_t n, float* y, bool accumulate = false);
  // y = x / sqrt(mean(x²) + eps) · weight for each of n rows of `hidden` values.
  void norm(const float* x, const float* weight, std::int64_t n, float* y);
  // Applies rotary embedding to the first n_heads heads of each query's row; rows are `width` values apart. `sines`:
  // rope.sin, or sin_back for a slope.
  void turn(const Queries& queries, const std::vector<float>& sines, int n_heads, std::int64_t width, float* rows);
  // to [queries.n, hidden] = the layer's outputs for `queries`; `rows` keeps the intermediate values. REQUIRES:
  // packed[l], and x, normed and kv of layers[l].
  void make_rows(const TrainedWeights::Layer& weights, std::size_t l, const Queries& queries, QueryRows& rows,
                 float* to);

  // cpu_draft_attention.cpp: causal attention within each sequence.
  // Sets rows.mixed [queries.n, query] and rows.log_sums [n_heads, queries.n] from rows.q and kv [n_row, 2 key].
  void attend(const Queries& queries, const float* kv, QueryRows& rows);
  // Backward pass of attend(). `slope` [queries.n, query] is that of rows.mixed. Sets q_slope [queries.n, query], and
  // kv_slope [n_row, 2 key] for every row that is a key of some query; other rows stay unchanged.
  void attend_back(const Queries& queries, const float* kv, QueryRows& rows, const float* slope, float* q_slope,
                   float* kv_slope);
  // Calls body(stretch, key head, DenseAttention with keys and values by column, scratch after them) on the pool's
  // threads.
  template <class Body>
  void each_key_head(const Queries& queries, const float* kv, const Body& body);

  // cpu_draft_backward.cpp: gradients.
  // x_slope [n, n_in] = slope [n, Σ n_out] · the parts' weights.
  void multiply_back(std::span<const Part> parts, const float* slope, std::int64_t n, float* x_slope);
  // Each part's gradient [n_out, n_in] += slopeᵀ x, for slope [n, Σ n_out] and x [n, n_in].
  void add_gradients(std::span<const Part> parts, const float* slope, const float* x, std::int64_t n);
  // Backward pass of norm(). `slope` [n, hidden] is that of y. Adds to x_slope [n, hidden] and to weight.gradient
  // [hidden].
  void norm_back(const float* x, const TrainedWeights::Matrix& weight, const float* slope, std::int64_t n,
                 float* x_slope);
  // Backward pass of a layer. `slope` [queries, hidden] is that of the layer's outputs; it is replaced by that of
  // `attended`, the queries' rows after attention. x_slopes [n_row, hidden] becomes that of all inputs. Overwrites the
  // intermediate values of make_rows().
  void layer_back(const TrainedWeights::Layer& weights, std::size_t l, float* slope);

  std::size_t bytes() const;  // of all buffers

  ModelConfig config;
  Dtype products;
  kernels::ThreadPool pool;
  PausePoint pause;  // of the current pass
  RopeTable rope;
  std::vector<float> sin_back;           // negated sines, for the inverse rotation
  std::int64_t hidden, query, key, ffn;  // widths: of a row, of all query heads, of all key heads, of the FFN

  Queries all, wanted, context;
  std::vector<std::int64_t> tokens;
  std::vector<LayerRows> layers;
  std::vector<PackedLayer> packed;
  QueryRows of_context;
  Floats made, last, output;    // the queries' outputs; input and output of the final norm
  Floats activations, columns;  // operands of products
  Floats heads;                 // per worker: keys, values, their slopes, and scores
  Floats slopes, wide_slopes, q_slopes, kv_slopes, x_slopes, normed_slopes;
};

}  // namespace slip
