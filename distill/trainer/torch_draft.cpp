// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_draft.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "distill/trainer/draft_trainer.h"
#include "engine/sampling/random.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

constexpr double kInitDeviation = 0.02;

// Box–Muller over addressed uniforms: element i of tensor t is the same number whatever was drawn before.
void fill_normal(const at::Tensor& tensor, double deviation, std::uint64_t seed, std::uint32_t which) {
  float* out = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); i += 2) {
    const RandomAddress address{seed, which, static_cast<std::uint32_t>(i)};
    const double radius = deviation * std::sqrt(-2 * std::log(1 - uniform(address, RandomPurpose::kDraft, 0)));
    const double angle = 2 * std::numbers::pi * uniform(address, RandomPurpose::kDraft, 1);
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < tensor.numel()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void copy_stored(const StoredTensor& stored, const at::Tensor& tensor, const std::string& name) {
  const auto wanted = tensor.sizes();
  if (!std::equal(wanted.begin(), wanted.end(), stored.shape.begin(), stored.shape.end())) {
    throw Error(ErrorCode::kDataLoss, "tensor \"" + name + "\" does not have the shape config.json gives it");
  }
  float* out = tensor.data_ptr<float>();
  const std::int64_t n = tensor.numel();
  if (stored.dtype == Dtype::kFloat32) {
    std::memcpy(out, stored.bytes.data(), stored.bytes.size());
    return;
  }
  const std::byte* in = stored.bytes.data();
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = stored.dtype == Dtype::kBFloat16 ? kernels::bf16_to_float(bits) : kernels::f16_to_float(bits);
  }
}

}  // namespace

TorchDraft::TorchDraft(const ModelConfig& config) : config_(config) {
  if (config.n_heads <= 0 || config.n_kv_heads <= 0 || config.n_heads % config.n_kv_heads != 0 ||
      config.head_dim <= 0 || config.head_dim % 2 != 0 || config.n_layers <= 0 || config.vocab_size <= 0) {
    throw Error(ErrorCode::kInvalidArgument, "the draft's shape is not a Llama's",
                "heads must be a multiple of kv_heads, and hidden of heads, with an even head size");
  }
  check_trainable(config);
  add_parameters();
}

void TorchDraft::add_parameters() {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t query = std::int64_t{config_.n_heads} * config_.head_dim;
  const std::int64_t key = std::int64_t{config_.n_kv_heads} * config_.head_dim;
  const std::int64_t ffn = config_.intermediate_size;
  auto add = [&](const std::string& name, at::IntArrayRef shape) {
    const bool is_norm = shape.size() == 1;
    at::Tensor value = is_norm ? at::ones(shape, at::kFloat) : at::zeros(shape, at::kFloat);
    parameters_.push_back({name, value.set_requires_grad(true)});
    return value;
  };
  add("model.embed_tokens.weight", {config_.vocab_size, hidden});
  if (!config_.tied_embeddings) add("lm_head.weight", {config_.vocab_size, hidden});
  for (int l = 0; l < config_.n_layers; ++l) {
    const std::string at = "model.layers." + std::to_string(l) + ".";
    Layer layer;
    layer.attention_norm = add(at + "input_layernorm.weight", {hidden});
    layer.q = add(at + "self_attn.q_proj.weight", {query, hidden});
    layer.k = add(at + "self_attn.k_proj.weight", {key, hidden});
    layer.v = add(at + "self_attn.v_proj.weight", {key, hidden});
    layer.out = add(at + "self_attn.o_proj.weight", {hidden, query});
    layer.ffn_norm = add(at + "post_attention_layernorm.weight", {hidden});
    layer.gate = add(at + "mlp.gate_proj.weight", {ffn, hidden});
    layer.up = add(at + "mlp.up_proj.weight", {ffn, hidden});
    layer.down = add(at + "mlp.down_proj.weight", {hidden, ffn});
    layers_.push_back(std::move(layer));
  }
  final_norm_ = add("model.norm.weight", {hidden});
}

TorchDraft::TorchDraft(const ModelConfig& config, std::uint64_t seed) : TorchDraft(config) {
  at::NoGradGuard no_grad;
  std::uint32_t which = 0;
  for (NamedTensor& parameter : parameters_) {
    if (parameter.value.dim() != 2) continue;
    const bool to_residual = parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
    const double divisor = to_residual ? std::sqrt(2.0 * config.n_layers) : 1.0;
    fill_normal(parameter.value, kInitDeviation / divisor, seed, which++);
  }
}

TorchDraft::TorchDraft(const ModelConfig& config, const std::filesystem::path& folder) : TorchDraft(config) {
  at::NoGradGuard no_grad;
  const WeightFiles file(folder);
  for (NamedTensor& parameter : parameters_) copy_stored(file.get(parameter.name), parameter.value, parameter.name);
}

// Moves the data but keeps each parameter variable, since layers_ refer to the same variables.
void TorchDraft::move_to(at::Device device) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& parameter : parameters_) {
    if (parameter.value.device() != device) parameter.value.set_data(parameter.value.detach().to(device));
  }
}

at::Tensor TorchDraft::norm(const at::Tensor& x, const at::Tensor& weight) const {
  return x * (x.square().mean(-1, /*keepdim=*/true) + config_.rms_norm_eps).rsqrt() * weight;
}

TorchDraft::Rotation TorchDraft::rotation(const PackedSequences& input) const {
  std::vector<at::Tensor> positions;
  for (std::int64_t length : input.lengths) positions.push_back(at::arange(length, at::kFloat));
  const at::Tensor half = at::arange(0, config_.head_dim, 2, at::kDouble) / config_.head_dim;
  const at::Tensor frequency = at::pow(config_.rope_theta, half.neg()).to(at::kFloat);
  const at::Tensor angle = at::outer(at::cat(positions), frequency).unsqueeze(1).to(embedding().device());
  return {angle.cos(), angle.sin()};
}

namespace {

// x [n, heads, head_dim]: the pairs are (i, i + head_dim / 2), Hugging Face's layout.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

// The wanted rows, [end − wanted, end) of each sequence, and the context rows before them.
struct RowSplit {
  RowSplit(const PackedSequences& input, at::Device device) {
    std::vector<std::int64_t> last, first;
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < input.lengths.size(); ++s) {
      const std::int64_t end = begin + input.lengths[s], border = end - input.wanted[s];
      for (std::int64_t row = begin; row < border; ++row) first.push_back(row);
      for (std::int64_t row = border; row < end; ++row) last.push_back(row);
      context_lengths.push_back(border - begin);
      begin = end;
    }
    std::vector<std::int64_t> place(static_cast<std::size_t>(begin));
    std::int64_t next = 0;
    for (const auto& rows : {first, last}) {
      for (const std::int64_t row : rows) place[static_cast<std::size_t>(row)] = next++;
    }
    wanted = at::tensor(last, at::kLong).to(device);
    context = at::tensor(first, at::kLong).to(device);
    order = at::tensor(place, at::kLong).to(device);
  }
  at::Tensor wanted, context;
  at::Tensor order;                           // [n_row] index of each row in context rows followed by wanted rows
  std::vector<std::int64_t> context_lengths;  // [n_seq]
};

}  // namespace

// q [Σ queries, heads, d], k and v [Σ lengths, kv_heads, d] → [Σ queries, heads · d]; query row i of the last `queries`
// rows of its sequence sees the keys up to itself.
at::Tensor TorchDraft::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 std::span<const std::int64_t> lengths, std::span<const std::int64_t> queries) const {
  const std::int64_t group = config_.n_heads / config_.n_kv_heads;
  std::vector<at::Tensor> outputs;
  std::int64_t q_at = 0;
  std::int64_t k_at = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const std::int64_t n = lengths[s];
    const std::int64_t m = queries[s];
    if (m == 0) {
      k_at += n;
      continue;
    }
    auto heads = [&](const at::Tensor& x, std::int64_t from, std::int64_t rows) {
      return x.narrow(0, from, rows).transpose(0, 1).unsqueeze(0);
    };
    std::optional<at::Tensor> mask;
    if (m != n) mask = at::ones({m, n}, q.options().dtype(at::kBool)).tril(n - m);
    const at::Tensor keys = heads(k, k_at, n).repeat_interleave(group, 1);
    const at::Tensor values = heads(v, k_at, n).repeat_interleave(group, 1);
    const at::Tensor out = at::scaled_dot_product_attention(heads(q, q_at, m), keys, values, mask, /*dropout_p=*/0.0,
                                                            /*is_causal=*/m == n);
    outputs.push_back(out.squeeze(0).transpose(0, 1).reshape({m, -1}));
    q_at += m;
    k_at += n;
  }
  return at::cat(outputs);
}

// Returns [Σ queries, hidden], the output rows of one layer. `x` and `normed` are rows of its input.
at::Tensor TorchDraft::layer_rows(const Layer& layer, const at::Tensor& x, const at::Tensor& normed,
                                  const Rotation& places, const KeysAndValues& kv,
                                  std::span<const std::int64_t> lengths, std::span<const std::int64_t> queries) const {
  const at::Tensor q =
      rotate(at::linear(normed, layer.q).view({-1, config_.n_heads, config_.head_dim}), places.cos, places.sin);
  const at::Tensor attended = x + at::linear(attention(q, kv.keys, kv.values, lengths, queries), layer.out);
  const at::Tensor fed = norm(attended, layer.ffn_norm);
  return attended + at::linear(at::silu(at::linear(fed, layer.gate)) * at::linear(fed, layer.up), layer.down);
}

at::Tensor TorchDraft::hidden(const PackedSequences& input, bool through_context) const {
  const std::int64_t head_dim = config_.head_dim;
  const at::Device device = embedding().device();
  const Rotation all = rotation(input);
  const RowSplit split(input, device);
  const auto rows_of = [](const at::Tensor& rows, const Rotation& places) {
    return Rotation{places.cos.index_select(0, rows), places.sin.index_select(0, rows)};
  };
  const Rotation of_wanted = rows_of(split.wanted, all), of_context = rows_of(split.context, all);
  // Sparse: the gradient holds only the rows of these tokens, and is added to a dense one.
  at::Tensor x = at::embedding(embedding(), at::tensor(input.tokens, at::kLong).to(device), /*padding_idx=*/-1,
                               /*scale_grad_by_freq=*/false, /*sparse=*/true);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const bool last = l + 1 == layers_.size();
    const at::Tensor normed = norm(x, layer.attention_norm);
    const KeysAndValues kv{
        rotate(at::linear(normed, layer.k).view({-1, config_.n_kv_heads, head_dim}), all.cos, all.sin),
        at::linear(normed, layer.v).view({-1, config_.n_kv_heads, head_dim})};
    if (!last && (through_context || split.context.numel() == 0)) {
      x = layer_rows(layer, x, normed, all, kv, input.lengths, input.lengths);
      continue;
    }
    const at::Tensor wanted = layer_rows(layer, x.index_select(0, split.wanted), normed.index_select(0, split.wanted),
                                         of_wanted, kv, input.lengths, input.wanted);
    if (last) return norm(wanted, final_norm_);
    at::Tensor context;
    {
      const at::NoGradGuard no_grad;
      const auto pick = [&](const at::Tensor& rows) { return rows.index_select(0, split.context); };
      context = layer_rows(layer, pick(x), pick(normed), of_context, {pick(kv.keys), pick(kv.values)},
                           split.context_lengths, split.context_lengths);
    }
    x = at::cat({context, wanted}).index_select(0, split.order);
  }
  return norm(x, final_norm_);
}

}  // namespace slip
