// SPDX-License-Identifier: Apache-2.0
#include "distill/cpu_draft.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <new>

#include "common/error.h"
#include "engine/model/rope.h"
#include "kernels/activations.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/training.h"

namespace slip {
namespace {

using kernels::DenseAttention;
using kernels::MatrixRows;
using kernels::PackedMatrix;

// Memory that grows to the most that was asked for and stays. What it held is lost when it grows.
class Floats {
 public:
  float* of(std::int64_t n) {
    const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
    if (bytes > bytes_) {
      memory_.reset();
      memory_ = aligned_memory(bytes);
      if (memory_ == nullptr) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return get();
  }
  float* zeros(std::int64_t n) {
    std::fill_n(of(n), n, 0.0F);
    return get();
  }
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

  void add(std::int64_t row, std::int64_t from, std::int64_t n_queries) {
    stretches.push_back({row, n, n_queries, from});
    n += n_queries;
  }
  void gather(const float* rows, std::int64_t width, float* to) const {
    for (const Stretch& s : stretches) std::copy_n(rows + s.row * width, s.n * width, to + s.at * width);
  }
  void scatter(const float* from, std::int64_t width, float* rows) const {
    for (const Stretch& s : stretches) std::copy_n(from + s.at * width, s.n * width, rows + s.row * width);
  }
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

std::vector<MatrixRows> rows_of(std::span<const Part> parts) {
  std::vector<MatrixRows> rows;
  for (const Part& part : parts) rows.push_back({part.matrix.value, Dtype::kFloat32, part.n_out});
  return rows;
}

struct PackedLayer {
  PackedMatrix q, kv, out, gate_up, down;
};

// What a layer makes of some of its rows, [n, …] each.
struct QueryRows {
  Floats normed, q, log_sums, mixed, attended, ffn_in, gate_up, gated;
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const Floats* f : {&normed, &q, &log_sums, &mixed, &attended, &ffn_in, &gate_up, &gated}) total += f->bytes();
    return total;
  }
};

// And of all rows, [n_row, …].
struct LayerRows {
  Floats x, normed, kv;
  QueryRows kept;
  bool all_rows = false;  // the queries with gradients are all rows, else the wanted ones
};

}  // namespace

struct CpuDraft::State {
  State(const ModelConfig& model, Dtype dtype, int threads)
      : config(model),
        products(dtype),
        pool(threads),
        rope(model),
        hidden(model.hidden_size),
        query(std::int64_t{model.n_heads} * model.head_dim),
        key(std::int64_t{model.n_kv_heads} * model.head_dim),
        ffn(model.intermediate_size),
        layers(static_cast<std::size_t>(model.n_layers)),
        packed(layers.size()) {
    for (const float sine : rope.sin) sin_back.push_back(-sine);
  }

  void plan(const PackedSequences& input);
  const Queries& with_gradient(const LayerRows& layer) const { return layer.all_rows ? all : wanted; }

  // Products of n rows; strides are the widths.
  void multiply(const PackedMatrix& weight, const float* x, std::int64_t n, float* y, bool accumulate = false);
  void multiply_back(std::span<const Part> parts, const float* slope, std::int64_t n, float* x_slope) {
    multiply(PackedMatrix::transposed(rows_of(parts), parts[0].n_in, products), slope, n, x_slope);
  }
  PackedMatrix pack(std::span<const Part> parts) const { return {rows_of(parts), parts[0].n_in, products}; }
  LayerParts parts_of(const TrainedWeights::Layer& layer) const;
  void add_gradients(std::span<const Part> parts, const float* slope, const float* x, std::int64_t n);
  void norm(const float* x, const float* weight, std::int64_t n, float* y);
  void norm_back(const float* x, const TrainedWeights::Matrix& weight, const float* slope, std::int64_t n,
                 float* x_slope);
  void turn(const Queries& queries, const std::vector<float>& sines, int n_heads, std::int64_t width, float* rows);

  void make_rows(const TrainedWeights::Layer& weights, std::size_t l, const Queries& queries, QueryRows& rows,
                 float* to);
  void attend(const Queries& queries, const float* kv, QueryRows& rows);
  void attend_back(const Queries& queries, const float* kv, QueryRows& rows, const float* slope, float* q_slope,
                   float* kv_slope);
  template <class Body>
  void each_key_head(const Queries& queries, const float* kv, const Body& body);
  void layer_back(const TrainedWeights::Layer& weights, std::size_t l, float* slope);

  ModelConfig config;
  Dtype products;
  kernels::ThreadPool pool;
  RopeTable rope;
  std::vector<float> sin_back;  // turning back
  std::int64_t hidden, query, key, ffn;

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

void CpuDraft::State::plan(const PackedSequences& input) {
  all = wanted = context = {};
  std::int64_t row = 0;
  for (std::size_t s = 0; s < input.lengths.size(); ++s) {
    const std::int64_t length = input.lengths[s], n = input.wanted[s], border = length - n;
    SLIP_CHECK(length <= config.max_positions && n <= length, "a sequence within the draft's context");
    all.add(row, 0, length);
    context.add(row, 0, border);
    wanted.add(row + border, border, n);
    row += length;
  }
  tokens = input.tokens;
}

LayerParts CpuDraft::State::parts_of(const TrainedWeights::Layer& layer) const {
  return {.q = {{{layer.q, query, hidden}}},
          .kv = {{{layer.k, key, hidden}, {layer.v, key, hidden}}},
          .out = {{{layer.out, hidden, query}}},
          .gate_up = {{{layer.gate, ffn, hidden}, {layer.up, ffn, hidden}}},
          .down = {{{layer.down, hidden, ffn}}}};
}

void CpuDraft::State::multiply(const PackedMatrix& weight, const float* x, std::int64_t n, float* y, bool accumulate) {
  const auto bytes = kernels::Activations::bytes(n, weight.n_in());
  float* scratch = activations.of(static_cast<std::int64_t>(bytes / sizeof(float)));
  kernels::matmul(weight, x, weight.n_in(), n, y, weight.n_out(), accumulate, scratch, pool);
}

// Each gradient [n_out, n_in] += slopeᵀ x, for slope [n, Σ n_out] and x [n, n_in].
void CpuDraft::State::add_gradients(std::span<const Part> parts, const float* slope, const float* x, std::int64_t n) {
  const std::int64_t n_in = parts[0].n_in;
  const PackedMatrix inputs = PackedMatrix::transposed({{{x, Dtype::kFloat32, n}}}, n_in, products);
  std::int64_t width = 0;
  for (const Part& part : parts) width += part.n_out;
  float* by_column = columns.of(width * n);
  kernels::transpose(slope, width, n, width, by_column, n);
  for (const Part& part : parts) {
    multiply(inputs, by_column, part.n_out, part.matrix.gradient, /*accumulate=*/true);
    by_column += part.n_out * n;
  }
}

void CpuDraft::State::norm(const float* x, const float* weight, std::int64_t n, float* y) {
  for (std::int64_t row = 0; row < n; ++row) {
    kernels::rms_norm(x + row * hidden, weight, hidden, config.rms_norm_eps, y + row * hidden);
  }
}

void CpuDraft::State::norm_back(const float* x, const TrainedWeights::Matrix& weight, const float* slope,
                                std::int64_t n, float* x_slope) {
  const auto eps = static_cast<float>(config.rms_norm_eps);
  for (std::int64_t at = 0; at < n * hidden; at += hidden) {
    kernels::rms_norm_back({x + at, weight.value, slope + at, hidden, eps, x_slope + at, weight.gradient});
  }
}

// The first n_heads heads of each row, which are `width` values apart.
void CpuDraft::State::turn(const Queries& queries, const std::vector<float>& sines, int n_heads, std::int64_t width,
                           float* rows) {
  const std::int64_t half = config.head_dim / 2;
  for (const Queries::Stretch& s : queries.stretches) {
    for (std::int64_t i = 0; i < s.n; ++i) {
      const std::int64_t angle = (s.from + i) * half;
      kernels::rope(rows + (s.at + i) * width, n_heads, config.head_dim, rope.cos.data() + angle, sines.data() + angle);
    }
  }
}

// body(stretch, key head, keys and values by column, their stride, scratch behind them).
template <class Body>
void CpuDraft::State::each_key_head(const Queries& queries, const float* kv, const Body& body) {
  const std::int64_t head_dim = config.head_dim, n_heads = config.n_kv_heads;
  std::int64_t longest = 0;
  for (const Queries::Stretch& s : queries.stretches) longest = std::max(longest, s.from + s.n);
  constexpr std::int64_t kColumns = DenseAttention::kColumns;
  const auto stride_of = [](std::int64_t n) { return (n + kColumns - 1) / kColumns * kColumns; };
  const std::int64_t each = (4 * head_dim + 2 * DenseAttention::kRows) * stride_of(longest);
  float* memory = heads.of(each * pool.n_threads());
  const auto work = [&](std::size_t index, int worker) {
    const Queries::Stretch& s = queries.stretches[index / static_cast<std::size_t>(n_heads)];
    if (s.n == 0) return;
    const auto head = static_cast<std::int64_t>(index) % n_heads;
    const std::int64_t n = s.from + s.n, stride = stride_of(n), first_row = s.row - s.from;
    float* keys = memory + worker * each;
    float* values = keys + head_dim * stride;
    std::fill_n(keys, 2 * head_dim * stride, 0.0F);
    const float* rows = kv + first_row * 2 * key + head * head_dim;
    kernels::transpose(rows, 2 * key, n, head_dim, keys, stride);
    kernels::transpose(rows + key, 2 * key, n, head_dim, values, stride);
    DenseAttention attention;
    attention.keys = keys;
    attention.values = values;
    attention.stride = stride;
    attention.head_dim = head_dim;
    attention.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    attention.row_stride = query;
    attention.n_queries = s.n;
    attention.visible = s.from + 1;
    body(s, head, attention, values + head_dim * stride);
  };
  pool.parallel_for(queries.stretches.size() * static_cast<std::size_t>(n_heads), work);
}

void CpuDraft::State::attend(const Queries& queries, const float* kv, QueryRows& rows) {
  const std::int64_t group = config.n_heads / config.n_kv_heads;
  float* log_sums = rows.log_sums.of(config.n_heads * queries.n);
  float* out = rows.mixed.of(queries.n * query);
  each_key_head(queries, kv, [&](const Queries::Stretch& s, std::int64_t head, DenseAttention attention, float* free) {
    attention.scratch = free;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      attention.q = rows.q.get() + s.at * query + h * config.head_dim;
      attention.out = out + s.at * query + h * config.head_dim;
      attention.log_sums = log_sums + h * queries.n + s.at;
      kernels::dense_attention(attention);
    }
  });
}

// q_slope [queries, query]; kv_slope [n_row, 2 key] of every row that is some query's key.
void CpuDraft::State::attend_back(const Queries& queries, const float* kv, QueryRows& rows, const float* slope,
                                  float* q_slope, float* kv_slope) {
  const std::int64_t group = config.n_heads / config.n_kv_heads, head_dim = config.head_dim;
  each_key_head(queries, kv, [&](const Queries::Stretch& s, std::int64_t head, DenseAttention attention, float* free) {
    attention.keys_slope = free;
    attention.values_slope = free + head_dim * attention.stride;
    attention.scratch = free + 2 * head_dim * attention.stride;
    std::fill_n(free, 2 * head_dim * attention.stride, 0.0F);
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const std::int64_t at = s.at * query + h * head_dim;
      attention.q = rows.q.get() + at;
      attention.out_slope = slope + at;
      attention.q_slope = q_slope + at;
      attention.log_sums = rows.log_sums.get() + h * queries.n + s.at;
      kernels::dense_attention_back(attention);
    }
    float* to = kv_slope + (s.row - s.from) * 2 * key + head * head_dim;
    kernels::transpose(attention.keys_slope, attention.stride, head_dim, s.from + s.n, to, 2 * key);
    kernels::transpose(attention.values_slope, attention.stride, head_dim, s.from + s.n, to + key, 2 * key);
  });
}

// The layer's outputs for `queries`, [queries.n, hidden].
void CpuDraft::State::make_rows(const TrainedWeights::Layer& weights, std::size_t l, const Queries& queries,
                                QueryRows& rows, float* to) {
  const LayerRows& layer = layers[l];
  const std::int64_t n = queries.n;
  float* normed = rows.normed.of(n * hidden);
  queries.gather(layer.normed.get(), hidden, normed);
  multiply(packed[l].q, normed, n, rows.q.of(n * query));
  turn(queries, rope.sin, config.n_heads, query, rows.q.get());
  attend(queries, layer.kv.get(), rows);
  float* attended = rows.attended.of(n * hidden);
  queries.gather(layer.x.get(), hidden, attended);
  multiply(packed[l].out, rows.mixed.get(), n, attended, /*accumulate=*/true);
  norm(attended, weights.ffn_norm.value, n, rows.ffn_in.of(n * hidden));
  float* gate_up = rows.gate_up.of(n * 2 * ffn);
  multiply(packed[l].gate_up, rows.ffn_in.get(), n, gate_up);
  float* gated = rows.gated.of(n * ffn);
  for (std::int64_t row = 0; row < n; ++row) {
    std::copy_n(gate_up + row * 2 * ffn, ffn, gated + row * ffn);
    kernels::silu_multiply(gated + row * ffn, gate_up + row * 2 * ffn + ffn, ffn);
  }
  std::copy_n(attended, n * hidden, to);
  multiply(packed[l].down, gated, n, to, /*accumulate=*/true);
}

CpuDraft::CpuDraft(const ModelConfig& config, Dtype products, int threads)
    : state_(std::make_unique<State>(config, products, threads)) {}
CpuDraft::~CpuDraft() = default;

std::span<const float> CpuDraft::hidden(const TrainedWeights& weights, const PackedSequences& input,
                                        bool through_context) {
  State& state = *state_;
  state.plan(input);
  const std::int64_t hidden = state.hidden, n_row = state.all.n;
  float* x = state.layers[0].x.of(n_row * hidden);
  for (std::int64_t row = 0; row < n_row; ++row) {
    std::copy_n(weights.embedding.value + state.tokens[row] * hidden, hidden, x + row * hidden);
  }
  for (std::size_t l = 0; l < state.layers.size(); ++l) {
    const TrainedWeights::Layer& of = weights.layers[l];
    LayerRows& layer = state.layers[l];
    const bool last = l + 1 == state.layers.size();
    const LayerParts parts = state.parts_of(of);
    state.packed[l] = {state.pack(parts.q), state.pack(parts.kv), state.pack(parts.out), state.pack(parts.gate_up),
                       state.pack(parts.down)};
    state.norm(layer.x.get(), of.attention_norm.value, n_row, layer.normed.of(n_row * hidden));
    state.multiply(state.packed[l].kv, layer.normed.get(), n_row, layer.kv.of(n_row * 2 * state.key));
    state.turn(state.all, state.rope.sin, state.config.n_kv_heads, 2 * state.key, layer.kv.get());
    layer.all_rows = through_context && !last;
    const Queries& queries = state.with_gradient(layer);
    float* made = last ? state.last.of(queries.n * hidden) : state.made.of(n_row * hidden);
    state.make_rows(of, l, queries, layer.kept, made);
    if (last) break;
    float* next = state.layers[l + 1].x.of(n_row * hidden);
    queries.scatter(made, hidden, next);
    if (layer.all_rows || state.context.n == 0) continue;
    state.make_rows(of, l, state.context, state.of_context, made);
    state.context.scatter(made, hidden, next);
  }
  const std::int64_t n = state.wanted.n;
  state.norm(state.last.get(), weights.final_norm.value, n, state.output.of(n * hidden));
  return {state.output.get(), static_cast<std::size_t>(n * hidden)};
}

// `slope` [queries, hidden], of the layer's outputs, becomes that of what its queries' rows were; x_slopes [n_row,
// hidden] that of all its inputs.
void CpuDraft::State::layer_back(const TrainedWeights::Layer& weights, std::size_t l, float* slope) {
  LayerRows& layer = layers[l];
  QueryRows& rows = layer.kept;
  const Queries& queries = with_gradient(layer);
  const std::int64_t n = queries.n, n_row = all.n;
  const LayerParts parts = parts_of(weights);

  float* gated_slope = wide_slopes.of(n * ffn);
  multiply_back(parts.down, slope, n, gated_slope);
  add_gradients(parts.down, slope, rows.gated.get(), n);
  for (std::int64_t row = 0; row < n; ++row) {
    float* gate = rows.gate_up.get() + row * 2 * ffn;
    kernels::silu_multiply_back(gated_slope + row * ffn, gate, gate + ffn, ffn);
  }
  float* normed_slope = normed_slopes.of(n_row * hidden);
  multiply_back(parts.gate_up, rows.gate_up.get(), n, normed_slope);
  add_gradients(parts.gate_up, rows.gate_up.get(), rows.ffn_in.get(), n);
  norm_back(rows.attended.get(), weights.ffn_norm, normed_slope, n, slope);

  float* mixed_slope = wide_slopes.of(n * query);
  multiply_back(parts.out, slope, n, mixed_slope);
  add_gradients(parts.out, slope, rows.mixed.get(), n);
  float* q_slope = q_slopes.of(n * query);
  float* kv_slope = kv_slopes.zeros(n_row * 2 * key);
  attend_back(queries, layer.kv.get(), rows, mixed_slope, q_slope, kv_slope);
  turn(queries, sin_back, config.n_heads, query, q_slope);
  turn(all, sin_back, config.n_kv_heads, 2 * key, kv_slope);

  add_gradients(parts.q, q_slope, rows.normed.get(), n);
  add_gradients(parts.kv, kv_slope, layer.normed.get(), n_row);
  multiply_back(parts.kv, kv_slope, n_row, normed_slope);
  float* of_queries = rows.ffn_in.get();  // done with
  multiply_back(parts.q, q_slope, n, of_queries);
  float* x_slope = x_slopes.zeros(n_row * hidden);
  queries.scatter(slope, hidden, x_slope);
  for (const Queries::Stretch& s : queries.stretches) {
    for (std::int64_t i = 0; i < s.n; ++i) {
      kernels::add(normed_slope + (s.row + i) * hidden, of_queries + (s.at + i) * hidden, hidden);
    }
  }
  norm_back(layer.x.get(), weights.attention_norm, normed_slope, n_row, x_slope);
}

void CpuDraft::backward(const TrainedWeights& weights, std::span<const float> slope) {
  State& state = *state_;
  const std::int64_t hidden = state.hidden;
  float* slopes = state.slopes.zeros(state.all.n * hidden);
  state.norm_back(state.last.get(), weights.final_norm, slope.data(), state.wanted.n, slopes);
  for (std::size_t l = state.layers.size(); l-- > 0;) {
    state.layer_back(weights.layers[l], l, slopes);
    if (l > 0) state.with_gradient(state.layers[l - 1]).gather(state.x_slopes.get(), hidden, slopes);
  }
  for (std::int64_t row = 0; row < state.all.n; ++row) {
    kernels::add(weights.embedding.gradient + state.tokens[row] * hidden, state.x_slopes.get() + row * hidden, hidden);
  }
}

std::size_t CpuDraft::bytes() const {
  const State& state = *state_;
  std::size_t total = state.of_context.bytes();
  for (const LayerRows& layer : state.layers) {
    total += layer.x.bytes() + layer.normed.bytes() + layer.kv.bytes() + layer.kept.bytes();
  }
  for (const PackedLayer& layer : state.packed) {
    total += layer.q.bytes() + layer.kv.bytes() + layer.out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  for (const Floats* floats :
       {&state.made, &state.last, &state.output, &state.activations, &state.columns, &state.heads, &state.slopes,
        &state.wide_slopes, &state.q_slopes, &state.kv_slopes, &state.x_slopes, &state.normed_slopes}) {
    total += floats->bytes();
  }
  return total;
}

}  // namespace slip
