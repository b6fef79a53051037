// SPDX-License-Identifier: Apache-2.0
#include "engine/models/transformer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "common/error.h"
#include "engine/models/step_check.h"
#include "engine/models/workspace_buffers.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

constexpr std::int32_t kRowsPerTask = 4;  // fewer rows are done before another thread would wake up

// The inputs and the scratch memory of one forward pass.
struct Pass {
  const ModelConfig& config;
  std::span<const ModelWeights* const> weight_sets;
  const StepInput& input;
  PagePool& cache;
  Workspace::Buffers& buffers;
  kernels::ThreadPool& pool;
  const RopeTable& rope;

  std::int32_t n_input_rows() const { return static_cast<std::int32_t>(input.tokens.size()); }
  std::int32_t n_sequences() const { return static_cast<std::int32_t>(input.kv.size()); }
  std::int64_t hidden() const { return config.hidden_size; }
  std::int64_t query_width() const { return std::int64_t{config.n_heads} * config.head_dim; }
  std::int64_t key_width() const { return std::int64_t{config.n_kv_heads} * config.head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * key_width(); }
};

// Calls body(row) for each row of [begin, end), on several threads when there are more than kRowsPerTask. std::ref: a
// std::function of the lambda itself would allocate.
template <class Body>
void for_rows(kernels::ThreadPool& pool, std::int32_t begin, std::int32_t end, const Body& body) {
  const auto task = [&](std::size_t index, int) {
    const std::int32_t first = begin + static_cast<std::int32_t>(index) * kRowsPerTask;
    for (std::int32_t row = first; row < std::min(first + kRowsPerTask, end); ++row) body(row);
  };
  const auto n_tasks = static_cast<std::size_t>((end - begin + kRowsPerTask - 1) / kRowsPerTask);
  if (n_tasks == 1) {
    task(0, 0);
  } else {
    pool.parallel_for(n_tasks, std::ref(task));
  }
}

void check_weight_sets(const Pass& pass) {
  for (const ModelWeights* weights : pass.weight_sets) {
    SLIP_CHECK(weights != nullptr && weights->config.same_shape(pass.config), "all weights of a pass share one shape");
  }
}

const ModelWeights* weights_of(const Pass& pass, std::int32_t sequence) {
  const std::size_t index = pass.input.weights.empty() ? 0 : pass.input.weights[static_cast<std::size_t>(sequence)];
  SLIP_CHECK(index < pass.weight_sets.size(), "a weight index outside the weight sets");
  return pass.weight_sets[index];
}

// Adjacent sequences with the same weights become one run: one matmul for all their rows.
void gather_runs(const Pass& pass) {
  auto& runs = pass.buffers.runs;
  runs.clear();
  pass.buffers.n_rows = pass.n_input_rows();
  for (std::int32_t s = 0; s < pass.n_sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int32_t begin = pass.input.row_begin[at], end = pass.input.row_begin[at + 1];
    if (begin == end) continue;
    const ModelWeights* weights = weights_of(pass, s);
    if (runs.empty() || runs.back().weights != weights) runs.push_back({weights, begin, end, 0, 0});
    runs.back().row_end = end;
  }
  const auto wanted = pass.input.logit_rows;
  for (WeightRun& run : runs) {
    const auto first = std::lower_bound(wanted.begin(), wanted.end(), run.row_begin);
    const auto last = std::lower_bound(wanted.begin(), wanted.end(), run.row_end);
    run.logit_begin = static_cast<std::int32_t>(first - wanted.begin());
    run.logit_end = static_cast<std::int32_t>(last - wanted.begin());
  }
}

void gather_attention_rows(const Pass& pass) {
  for (std::int32_t s = 0; s < pass.n_sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const KvView& kv = pass.input.kv[at];
    for (std::int32_t row = pass.input.row_begin[at]; row < pass.input.row_begin[at + 1]; ++row) {
      kernels::AttentionRow& view = pass.buffers.attention_rows[static_cast<std::size_t>(row)];
      view = {kv.pages->pages(), kv.n_cached, kv.n_ahead + row - pass.input.row_begin[at]};
      view.visible = kv.visible;
      if (pass.input.ancestors.empty()) continue;
      const auto words = static_cast<std::size_t>(pass.input.ancestor_words);
      view.ancestors = pass.input.ancestors.subspan(static_cast<std::size_t>(row) * words, words);
    }
  }
}

void embed_row(const ModelWeights& weights, std::int32_t token, float* out) {
  if (weights.embedding.empty()) return weights.lm_head.copy_row(token, out);
  const auto n = static_cast<std::size_t>(weights.config.hidden_size);
  const std::byte* row = weights.embedding.data() + static_cast<std::size_t>(token) * n * dtype_bytes(weights.dtype);
  if (weights.dtype == Dtype::kFloat32) {
    std::memcpy(out, row, n * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + 2 * i, sizeof bits);
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
}

void embed(const Pass& pass) {
  for (const WeightRun& run : pass.buffers.runs) {
    for_rows(pass.pool, run.row_begin, run.row_end, [&](std::int32_t row) {
      embed_row(*run.weights, pass.input.tokens[static_cast<std::size_t>(row)],
                pass.buffers.residual.data() + row * pass.hidden());
    });
  }
}

// The activations of a run's rows, as input of a product.
kernels::Activations activations(const WeightRun& run, const kernels::PackedMatrix& weight, std::int64_t width,
                                 const AlignedArray<std::byte>& memory) {
  return {weight.compute_dtype(), run.row_end - run.row_begin, width, memory.data()};
}

// The normalised rows of a run, as input of the product with `next`.
kernels::Activations normalised(const Pass& pass, const WeightRun& run, const std::vector<float>& weight,
                                const kernels::PackedMatrix& next) {
  const auto eps = static_cast<float>(pass.config.rms_norm_eps);
  const kernels::Activations to = activations(run, next, pass.hidden(), pass.buffers.scratch);
  for_rows(pass.pool, run.row_begin, run.row_end, [&](std::int32_t row) {
    const std::int64_t at = row * pass.hidden();
    float* normed = pass.buffers.normed.data() + at;
    kernels::rms_norm(pass.buffers.residual.data() + at, weight.data(), pass.hidden(), eps, normed);
    to.set_row(row - run.row_begin, normed);
  });
  return to;
}

// One activation matrix of the pass: `width` values per row, rows contiguous.
struct Activation {
  float* data;
  std::int64_t width;
};

kernels::MatmulOutput output_of(const WeightRun& run, Activation to, bool accumulate) {
  return {to.data + run.row_begin * to.width, to.width, accumulate};
}

void add_bias(const Pass& pass, const WeightRun& run, const std::vector<float>& bias, Activation to) {
  if (bias.empty()) return;
  for_rows(pass.pool, run.row_begin, run.row_end,
           [&](std::int32_t row) { kernels::add(to.data + row * to.width, bias.data(), std::ssize(bias)); });
}

// Normalises each query and key head on its own, before rope.
void normalise_heads(const Pass& pass, const WeightRun& run, const ModelWeights::Layer& layer) {
  if (layer.q_norm.empty()) return;
  const auto eps = static_cast<float>(pass.config.rms_norm_eps);
  const std::int32_t n_heads = pass.config.n_heads, head_dim = pass.config.head_dim;
  for_rows(pass.pool, run.row_begin, run.row_end, [&](std::int32_t row) {
    float* head = pass.buffers.qkv.data() + row * pass.qkv_width();
    for (std::int32_t h = 0; h < n_heads + pass.config.n_kv_heads; ++h, head += head_dim) {
      kernels::rms_norm(head, (h < n_heads ? layer.q_norm : layer.k_norm).data(), head_dim, eps, head);
    }
  });
}

void rotate_and_store(const Pass& pass, const kernels::PagedKv& kv) {
  const std::int64_t half = pass.config.head_dim / 2;
  for_rows(pass.pool, 0, pass.n_input_rows(), [&](std::int32_t row) {
    float* qkv = pass.buffers.qkv.data() + row * pass.qkv_width();
    const std::int64_t position = pass.input.positions[static_cast<std::size_t>(row)];
    // Queries and keys are adjacent, so one call rotates both.
    kernels::rope(qkv, pass.config.n_heads + pass.config.n_kv_heads, pass.config.head_dim,
                  pass.rope.cos.data() + position * half, pass.rope.sin.data() + position * half);
    const kernels::AttentionRow& view = pass.buffers.attention_rows[static_cast<std::size_t>(row)];
    const std::int32_t slot = view.n_committed + view.own_index;
    const float* key = qkv + pass.query_width();
    kernels::store_kv(kv, view.pages[slot / PagePool::kPageTokens], slot % PagePool::kPageTokens, key,
                      key + pass.key_width());
  });
}

// Stores the keys and values of all rows of the step in the cache; their queries stay in qkv.
void store_keys(const Pass& pass, std::int32_t layer) {
  const Activation qkv{pass.buffers.qkv.data(), pass.qkv_width()};
  for (const WeightRun& run : pass.buffers.runs) {
    const ModelWeights::Layer& weights = run.weights->layers[static_cast<std::size_t>(layer)];
    const kernels::Activations normed = normalised(pass, run, weights.attention_norm, weights.qkv);
    kernels::matmul(weights.qkv, normed, output_of(run, qkv, /*accumulate=*/false), pass.pool);
    add_bias(pass, run, weights.qkv_bias, qkv);
    normalise_heads(pass, run, weights);
  }
  rotate_and_store(pass, pass.cache.layer(layer));
}

// Moves the rows whose logits are wanted to the front and drops the others: in the last layer, a prompt's other rows
// only need their keys and values.
void keep_wanted_rows(const Pass& pass) {
  Workspace::Buffers& buffers = pass.buffers;
  const auto move_up = [](Activation rows, std::int64_t from, std::int64_t to) {
    std::copy_n(rows.data + from * rows.width, rows.width, rows.data + to * rows.width);
  };
  const auto wanted = pass.input.logit_rows;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto from = static_cast<std::size_t>(wanted[i]);
    if (from == i) continue;
    move_up({buffers.residual.data(), pass.hidden()}, wanted[i], static_cast<std::int64_t>(i));
    move_up({buffers.qkv.data(), pass.qkv_width()}, wanted[i], static_cast<std::int64_t>(i));
    buffers.attention_rows[i] = buffers.attention_rows[from];
  }
  for (WeightRun& run : buffers.runs) {
    run.row_begin = run.logit_begin;
    run.row_end = run.logit_end;
  }
  std::erase_if(buffers.runs, [](const WeightRun& run) { return run.row_begin == run.row_end; });
  buffers.n_rows = static_cast<std::int32_t>(wanted.size());
}

void attend(const Pass& pass, std::int32_t layer) {
  const Activation residual{pass.buffers.residual.data(), pass.hidden()};
  const Activation qkv{pass.buffers.qkv.data(), pass.qkv_width()};
  const Activation attended{pass.buffers.attention.data(), pass.query_width()};
  const auto rows = std::span(pass.buffers.attention_rows).first(static_cast<std::size_t>(pass.buffers.n_rows));
  for (kernels::AttentionRow& row : rows) row.window = pass.config.window(layer);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(pass.config.head_dim)));
  kernels::paged_attention(qkv.data, qkv.width, pass.cache.layer(layer), rows, pass.config.n_heads, scale,
                           attended.data, attended.width, pass.pool);
  for (const WeightRun& run : pass.buffers.runs) {
    const ModelWeights::Layer& weights = run.weights->layers[static_cast<std::size_t>(layer)];
    kernels::matmul(weights.attention_out, attended.data + run.row_begin * attended.width, attended.width,
                    run.row_end - run.row_begin, residual.data + run.row_begin * residual.width, residual.width,
                    /*accumulate=*/true, pass.buffers.scratch.data(), pass.pool);
    add_bias(pass, run, weights.attention_out_bias, residual);
  }
}

void ffn_block(const Pass& pass, std::int32_t layer) {
  const Activation residual{pass.buffers.residual.data(), pass.hidden()};
  for (const WeightRun& run : pass.buffers.runs) {
    const ModelWeights::Layer& weights = run.weights->layers[static_cast<std::size_t>(layer)];
    const kernels::Activations normed = normalised(pass, run, weights.ffn_norm, weights.gate_up);
    const kernels::Activations gated =
        activations(run, weights.down, pass.config.intermediate_size, pass.buffers.gated);
    kernels::gated_matmul(weights.gate_up, weights.gate_up_bias, normed, gated, pass.pool);
    kernels::matmul(weights.down, gated, output_of(run, residual, /*accumulate=*/true), pass.pool);
    add_bias(pass, run, weights.down_bias, residual);
  }
}

void copy_tap(const Pass& pass, std::int32_t layer, std::span<const TensorView> taps) {
  const TensorView* tap = tap_of(pass.input.taps, taps, layer);
  if (tap == nullptr) return;
  for (std::int32_t row = 0; row < pass.n_input_rows(); ++row) {
    const float* from = pass.buffers.residual.data() + row * pass.hidden();
    std::copy_n(from, pass.hidden(), tap->row<float>(row));
  }
}

// The final norm of the remaining rows: in the caller's memory if wanted there, else in the workspace.
TensorView final_hidden_rows(const Pass& pass, const TensorView& wanted) {
  TensorView hidden = wanted;
  if (hidden.data == nullptr) {
    hidden = TensorView::contiguous(pass.buffers.final_hidden.data(),
                                    {static_cast<std::int64_t>(pass.input.logit_rows.size()), pass.hidden()});
  }
  const auto eps = static_cast<float>(pass.config.rms_norm_eps);
  for (const WeightRun& run : pass.buffers.runs) {
    for (std::int32_t row = run.row_begin; row < run.row_end; ++row) {
      kernels::rms_norm(pass.buffers.residual.data() + row * pass.hidden(), run.weights->final_norm.data(),
                        pass.hidden(), eps, hidden.row<float>(row));
    }
  }
  return hidden;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, kernels::ThreadPool& pool)
    : config_(config), pool_(&pool), rope_(config) {}

void Transformer::forward(std::span<const ModelWeights* const> weight_sets, const StepInput& input, PagePool& cache,
                          Workspace& workspace, StepOutput& output) const {
  const Pass pass{config_, weight_sets, input, cache, workspace.buffers(), *pool_, rope_};
  check_step(input, config_, {pass.buffers.max_rows, pass.buffers.max_logit_rows});
  check_weight_sets(pass);
  gather_runs(pass);
  gather_attention_rows(pass);
  embed(pass);
  const std::int32_t last = config_.n_layers - 1;
  for (std::int32_t layer = 0; layer < last; ++layer) {
    store_keys(pass, layer);
    attend(pass, layer);
    ffn_block(pass, layer);
    copy_tap(pass, layer, output.taps);
  }
  const bool last_is_tapped = tap_of(input.taps, output.taps, last) != nullptr;
  store_keys(pass, last);
  if (!last_is_tapped) keep_wanted_rows(pass);
  if (pass.buffers.n_rows > 0) {
    attend(pass, last);
    ffn_block(pass, last);
  }
  if (last_is_tapped) {
    copy_tap(pass, last, output.taps);
    keep_wanted_rows(pass);
  }
  if (input.logit_rows.empty()) return;
  const TensorView hidden = final_hidden_rows(pass, output.final_hidden);
  if (output.logits.data == nullptr) return;
  for (const WeightRun& run : pass.buffers.runs) {
    kernels::matmul(run.weights->lm_head, hidden.row<float>(run.row_begin), hidden.strides[0],
                    run.row_end - run.row_begin, output.logits.row<float>(run.row_begin), output.logits.strides[0],
                    /*accumulate=*/false, pass.buffers.scratch.data(), *pool_);
  }
}

}  // namespace slip
