// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/cpu_draft.h"

#include <algorithm>
#include <new>

#include "common/error.h"
#include "distill/trainer/cpu_draft_state.h"
#include "kernels/activations.h"
#include "kernels/elementwise.h"

namespace slip {

using kernels::MatrixRows;
using kernels::PackedMatrix;

float* CpuDraft::State::Floats::of(std::int64_t n) {
  const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  if (bytes > bytes_) {
    bytes_ = 0;  // also after a failure: a smaller request must not get memory that is gone
    memory_.reset();
    memory_ = aligned_memory(bytes);
    if (memory_ == nullptr) throw std::bad_alloc();
    bytes_ = bytes;
  }
  return get();
}

float* CpuDraft::State::Floats::zeros(std::int64_t n) {
  std::fill_n(of(n), n, 0.0F);
  return get();
}

void CpuDraft::State::Queries::add(std::int64_t row, std::int64_t from, std::int64_t n_queries) {
  stretches.push_back({row, n, n_queries, from});
  n += n_queries;
}

void CpuDraft::State::Queries::gather(const float* rows, std::int64_t width, float* to) const {
  for (const Stretch& s : stretches) std::copy_n(rows + s.row * width, s.n * width, to + s.at * width);
}

void CpuDraft::State::Queries::scatter(const float* from, std::int64_t width, float* rows) const {
  for (const Stretch& s : stretches) std::copy_n(from + s.at * width, s.n * width, rows + s.row * width);
}

std::size_t CpuDraft::State::QueryRows::bytes() const {
  std::size_t total = 0;
  for (const Floats* f : {&normed, &q, &log_sums, &mixed, &attended, &ffn_in, &gate_up, &gated}) total += f->bytes();
  return total;
}

CpuDraft::State::State(const ModelConfig& model, Dtype dtype, int threads)
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

CpuDraft::State::LayerParts CpuDraft::State::parts_of(const TrainedWeights::Layer& layer) const {
  return {.q = {{{layer.q, query, hidden}}},
          .kv = {{{layer.k, key, hidden}, {layer.v, key, hidden}}},
          .out = {{{layer.out, hidden, query}}},
          .gate_up = {{{layer.gate, ffn, hidden}, {layer.up, ffn, hidden}}},
          .down = {{{layer.down, hidden, ffn}}}};
}

std::vector<MatrixRows> CpuDraft::State::rows_of(std::span<const Part> parts) {
  std::vector<MatrixRows> rows;
  for (const Part& part : parts) rows.push_back({part.matrix.value, Dtype::kFloat32, part.n_out});
  return rows;
}

void CpuDraft::State::multiply(const PackedMatrix& weight, const float* x, std::int64_t n, float* y, bool accumulate) {
  give_way(pause);
  const auto bytes = kernels::Activations::bytes(n, weight.n_in());
  float* scratch = activations.of(static_cast<std::int64_t>(bytes / sizeof(float)));
  kernels::matmul(weight, x, weight.n_in(), n, y, weight.n_out(), accumulate, scratch, pool);
}

void CpuDraft::State::norm(const float* x, const float* weight, std::int64_t n, float* y) {
  for (std::int64_t row = 0; row < n; ++row) {
    kernels::rms_norm(x + row * hidden, weight, hidden, config.rms_norm_eps, y + row * hidden);
  }
}

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

std::size_t CpuDraft::State::bytes() const {
  std::size_t total = of_context.bytes();
  for (const LayerRows& layer : layers) {
    total += layer.x.bytes() + layer.normed.bytes() + layer.kv.bytes() + layer.kept.bytes();
  }
  for (const PackedLayer& layer : packed) {
    total += layer.q.bytes() + layer.kv.bytes() + layer.out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  for (const Floats* floats : {&made, &last, &output, &activations, &columns, &heads, &slopes, &wide_slopes, &q_slopes,
                               &kv_slopes, &x_slopes, &normed_slopes}) {
    total += floats->bytes();
  }
  return total;
}

CpuDraft::CpuDraft(const ModelConfig& config, Dtype products, int threads)
    : state_(std::make_unique<State>(config, products, threads)) {}
CpuDraft::~CpuDraft() = default;

std::span<const float> CpuDraft::hidden(const TrainedWeights& weights, const PackedSequences& input,
                                        bool through_context, const PausePoint& pause) {
  State& state = *state_;
  state.pause = pause;
  state.plan(input);
  const std::int64_t hidden = state.hidden, n_row = state.all.n;
  float* x = state.layers[0].x.of(n_row * hidden);
  for (std::int64_t row = 0; row < n_row; ++row) {
    std::copy_n(weights.embedding.value + state.tokens[row] * hidden, hidden, x + row * hidden);
  }
  for (std::size_t l = 0; l < state.layers.size(); ++l) {
    const TrainedWeights::Layer& of = weights.layers[l];
    State::LayerRows& layer = state.layers[l];
    const bool last = l + 1 == state.layers.size();
    const State::LayerParts parts = state.parts_of(of);
    state.packed[l] = {state.pack(parts.q), state.pack(parts.kv), state.pack(parts.out), state.pack(parts.gate_up),
                       state.pack(parts.down)};
    state.norm(layer.x.get(), of.attention_norm.value, n_row, layer.normed.of(n_row * hidden));
    state.multiply(state.packed[l].kv, layer.normed.get(), n_row, layer.kv.of(n_row * 2 * state.key));
    state.turn(state.all, state.rope.sin, state.config.n_kv_heads, 2 * state.key, layer.kv.get());
    layer.all_rows = through_context && !last;
    const State::Queries& queries = state.with_gradient(layer);
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

std::size_t CpuDraft::bytes() const {
  return state_->bytes();
}

}  // namespace slip
