// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/model_config.h"
#include "distill/trainer/packed_sequences.h"

namespace slip {

struct NamedTensor {
  std::string name;  // as in a Hugging Face checkpoint
  at::Tensor value;  // float32, requires grad
};

// The float32 master weights of a plain Llama (check_trainable) and its differentiable forward pass up to the final
// norm. TorchHead does the product with the vocabulary, in pieces. Threads: one owner.
class TorchDraft {
 public:
  // Random weights: normal with standard deviation 0.02, output projections divided by sqrt(2 layers) as in GPT-2. The
  // same `seed` gives the same weights on every machine.
  TorchDraft(const ModelConfig& config, std::uint64_t seed);
  // The weights of a Hugging Face folder. Error{kDataLoss | kInvalidArgument | kNotFound} naming the tensor.
  TorchDraft(const ModelConfig& config, const std::filesystem::path& folder);

  // Moves all weights. REQUIRES: no gradients exist yet.
  void move_to(at::Device device);

  // Returns [Σ wanted, hidden] after the final norm, differentiable. The last layer computes the wanted rows only.
  // Without `through_context` the context rows before them are constants above the first layer: no gradient flows back
  // through their hidden states, only into the weights that compute their keys and values.
  at::Tensor hidden(const PackedSequences& input, bool through_context = true) const;

  std::vector<NamedTensor>& parameters() { return parameters_; }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const at::Tensor& embedding() const { return parameters_[0].value; }
  const at::Tensor& output_weight() const {
    return config_.tied_embeddings ? parameters_[0].value : parameters_[1].value;
  }
  const ModelConfig& config() const { return config_; }

 private:
  struct Layer {
    at::Tensor attention_norm, q, k, v, out, ffn_norm, gate, up, down;
  };
  struct Rotation {
    at::Tensor cos, sin;  // [n_row, 1, head_dim / 2]
  };
  struct KeysAndValues {
    at::Tensor keys, values;  // [n_row, kv_heads, head_dim]
  };
  explicit TorchDraft(const ModelConfig& config);
  void add_parameters();
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const;
  Rotation rotation(const PackedSequences& input) const;
  at::Tensor layer_rows(const Layer& layer, const at::Tensor& x, const at::Tensor& normed, const Rotation& places,
                        const KeysAndValues& kv, std::span<const std::int64_t> lengths,
                        std::span<const std::int64_t> queries) const;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       std::span<const std::int64_t> lengths, std::span<const std::int64_t> queries) const;

  ModelConfig config_;
  std::vector<NamedTensor> parameters_;
  std::vector<Layer> layers_;
  at::Tensor final_norm_;
};

}  // namespace slip
