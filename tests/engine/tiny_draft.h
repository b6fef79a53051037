// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "engine/sampling/random.h"
#include "engine/speculative/live_draft.h"

namespace slip::testing {

inline ModelConfig tiny_draft_config(std::int32_t vocab_size, std::int32_t max_positions = 512,
                                     std::int32_t hidden_size = 32) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = hidden_size;
  config.intermediate_size = 48;
  config.n_layers = 2;
  config.n_heads = 2;
  config.n_kv_heads = 1;
  config.head_dim = 16;
  config.max_positions = max_positions;
  return config;
}

// A Llama with random weights, in memory. As a draft it is nearly always wrong, and all its logits depend on its cache.
inline std::shared_ptr<const ModelWeights> tiny_draft(const ModelConfig& config, std::uint64_t seed) {
  auto weights = std::make_shared<ModelWeights>();
  weights->config = config;
  weights->dtype = Dtype::kFloat32;
  std::uint32_t n_made = 0;
  const auto numbers = [&](std::int64_t n) {
    std::vector<float> values;
    const RandomAddress address{seed, 0, n_made++};
    for (std::int64_t i = 0; i < n; ++i) {
      values.push_back(
          static_cast<float>(uniform(address, RandomPurpose::kDraft, static_cast<std::uint32_t>(i)) - 0.5));
    }
    return values;
  };
  const auto matrix = [&](std::int64_t n_out, std::int64_t n_in) {
    return kernels::PackedMatrix(numbers(n_out * n_in).data(), Dtype::kFloat32, n_out, n_in, Dtype::kFloat32);
  };
  const auto gated = [&](std::int64_t n_out, std::int64_t n_in) {
    const auto both = numbers(2 * n_out * n_in);
    const kernels::MatrixRows gate{both.data(), Dtype::kFloat32, n_out}, up{&both[both.size() / 2], gate.dtype, n_out};
    return kernels::PackedMatrix(kernels::gated_parts(gate, up, n_in), n_in, Dtype::kFloat32);
  };
  const std::int64_t hidden = config.hidden_size, queries = config.n_heads * config.head_dim,
                     keys = config.n_kv_heads * config.head_dim;
  const auto norm = std::vector<float>(static_cast<std::size_t>(hidden), 1.0F);
  const auto embedding = numbers(config.vocab_size * hidden);
  weights->embedding.resize(embedding.size() * sizeof(float));
  std::memcpy(weights->embedding.data(), embedding.data(), weights->embedding.size());
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    weights->layers.push_back({norm, norm, matrix(queries + 2 * keys, hidden), matrix(hidden, queries),
                               gated(config.intermediate_size, hidden), matrix(hidden, config.intermediate_size)});
  }
  weights->final_norm = norm;
  weights->lm_head = matrix(config.vocab_size, hidden);
  return weights;
}

inline std::shared_ptr<const DraftVersion> draft_version(std::shared_ptr<const ModelWeights> weights,
                                                         std::uint64_t number) {
  auto version = std::make_shared<DraftVersion>();
  version->draft = {0};
  version->name = "tiny";
  version->number = number;
  version->weights = std::move(weights);
  return version;
}

inline std::shared_ptr<LiveDraft> make_live_draft(std::shared_ptr<const ModelWeights> weights) {
  return std::make_shared<LiveDraft>(DraftId{0}, "tiny", draft_version(std::move(weights), 1));
}

}  // namespace slip::testing
