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
// of the loss with respect to what it is named after. All matrices are row-major float32; "n" counts rows. Threads: one
// owner, who calls into the pool.
struct CpuDraft::State {
  // Memory that grows to the most that was asked for and stays. What it held is lost when it grows.
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

  // Rows of each sequence that a layer makes outputs of, one behind the other; each sees the keys up to its own.
  struct Queries {
    struct Stretch {
      std::int64_t row = 0;   // the first, among all rows
      std::int64_t at = 0;    // and among the queries
      std::int64_t n = 0;     // queries
      std::int64_t from = 0;  // the first's position in its sequence
    };
    std::vector<Stretch> stretches;  // [n_seq]
    std::int64_t n = 0;

    void add(std::int64_t row, std::int64_t from, std::int64_t n_queries);
    // to [n, width] = the queries' rows of `rows` [n_row, width].
    void gather(const float* rows, std::int64_t width, float* to) const;
    // The queries' rows of `rows` [n_row, width] = from [n, width].
    void scatter(const float* from, std::int64_t width, float* rows) const;
  };

  // A matrix [n_out, n_in] of those that make one product together, one below the other.
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
  // And for all rows, [n_row, …].
  struct LayerRows {
    Floats x, normed, kv;
    QueryRows kept;
    bool all_rows = false;  // the queries with gradients are all rows, else the wanted ones
  };

  State(const ModelConfig& model, Dtype dtype, int threads);

  // Sets `all`, `wanted`, `context` and `tokens`. REQUIRES: sequences within the draft's context.
  void plan(const PackedSequences& input);
  const Queries& with_gradient(const LayerRows& layer) const { return layer.all_rows ? all : wanted; }

  // cpu_draft.cpp: the forward pass without attention, and what both passes use.
  LayerParts parts_of(const TrainedWeights::Layer& layer) const;
  static std::vector<kernels::MatrixRows> rows_of(std::span<const Part> parts);
  kernels::PackedMatrix pack(std::span<const Part> parts) const { return {rows_of(parts), parts[0].n_in, products}; }
  // y [n, n_out] = x [n, n_in] weightᵀ, or is added to.
  void multiply(const kernels::PackedMatrix& weight, const float* x, std::int64_t n, float* y, bool accumulate = false);
  // y = x / sqrt(mean(x²) + eps) · weight for each of n rows of `hidden` values.
  void norm(const float* x, const float* weight, std::int64_t n, float* y);
  // Rotates the first n_heads heads of each query's row by its position; rows are `width` values apart. `sines`:
  // rope.sin, or sin_back for a slope.
  void turn(const Queries& queries, const std::vector<float>& sines, int n_heads, std::int64_t width, float* rows);
  // to [queries.n, hidden] = the layer's outputs for `queries`; `rows` keeps what lies between. REQUIRES: packed[l],
  // and x, normed and kv of layers[l].
  void make_rows(const TrainedWeights::Layer& weights, std::size_t l, const Queries& queries, QueryRows& rows,
                 float* to);

  // cpu_draft_attention.cpp: causal attention within each sequence.
  // Sets rows.mixed [queries.n, query] and rows.log_sums [n_heads, queries.n] from rows.q and kv [n_row, 2 key].
  void attend(const Queries& queries, const float* kv, QueryRows& rows);
  // From slope [queries.n, query], that of rows.mixed: q_slope [queries.n, query] is set, and so is kv_slope
  // [n_row, 2 key] of every row that is some query's key; other rows are left as they are.
  void attend_back(const Queries& queries, const float* kv, QueryRows& rows, const float* slope, float* q_slope,
                   float* kv_slope);
  // Calls body(stretch, key head, DenseAttention with keys and values by column, scratch behind them) on the pool's
  // threads.
  template <class Body>
  void each_key_head(const Queries& queries, const float* kv, const Body& body);

  // cpu_draft_backward.cpp: gradients.
  // x_slope [n, n_in] = slope [n, Σ n_out] · the parts' weights.
  void multiply_back(std::span<const Part> parts, const float* slope, std::int64_t n, float* x_slope);
  // Each part's gradient [n_out, n_in] += slopeᵀ x, for slope [n, Σ n_out] and x [n, n_in].
  void add_gradients(std::span<const Part> parts, const float* slope, const float* x, std::int64_t n);
  // Adds to x_slope [n, hidden] and to weight.gradient [hidden] from slope [n, hidden], that of norm()'s y.
  void norm_back(const float* x, const TrainedWeights::Matrix& weight, const float* slope, std::int64_t n,
                 float* x_slope);
  // slope [queries, hidden], of the layer's outputs, becomes that of `attended`, its queries' rows behind attention;
  // x_slopes [n_row, hidden] becomes that of all its inputs. Uses up what make_rows() kept of the layer.
  void layer_back(const TrainedWeights::Layer& weights, std::size_t l, float* slope);

  std::size_t bytes() const;  // of all buffers

  ModelConfig config;
  Dtype products;
  kernels::ThreadPool pool;
  RopeTable rope;
  std::vector<float> sin_back;           // turning back
  std::int64_t hidden, query, key, ffn;  // widths: of a row, of all query heads, of all key heads, of the FFN

  Queries all, wanted, context;
  std::vector<std::int64_t> tokens;
  std::vector<LayerRows> layers;
  std::vector<PackedLayer> packed;
  QueryRows of_context;
  Floats made, last, output;    // the queries' outputs; what the final norm takes and makes
  Floats activations, columns;  // what products take
  Floats heads;                 // keys, values, their slopes and scores, a worker each
  Floats slopes, wide_slopes, q_slopes, kv_slopes, x_slopes, normed_slopes;
};

}  // namespace slip
