// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/models/pack_weights.h"
#include "engine/sampling/random.h"
#include "engine/speculative/live_draft.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip::testing {

inline ModelConfig tiny_draft_config(std::int32_t vocab_size, std::int32_t max_positions = 512,
                                     std::int32_t hidden_size = 32) {
  return tiny_config({.vocab_size = vocab_size,
                      .hidden_size = hidden_size,
                      .intermediate_size = 48,
                      .n_layers = 2,
                      .head_dim = 16,
                      .max_positions = max_positions,
                      .tied_embeddings = false});
}

// A Llama with random weights, in memory. As a draft it is nearly always wrong, and all its logits depend on its cache.
inline std::shared_ptr<const ModelWeights> tiny_draft(const ModelConfig& config, std::uint64_t seed) {
  TinyLlama model(config);  // whose values are drawn anew, by `seed`
  for (auto& [name, tensor] : model.tensors) {
    if (name.ends_with("norm.weight")) std::fill(tensor.values.begin(), tensor.values.end(), 1.0F);
  }
  std::uint32_t n_drawn = 0;
  const auto draw = [&](const std::vector<std::string>& names) {  // the parts of one packed matrix
    const RandomAddress address{seed, 0, n_drawn++};
    std::uint32_t i = 0;
    for (const auto& name : names) {
      for (float& value : model.tensors.at(name).values) {
        value = static_cast<float>(uniform(address, RandomPurpose::kDraft, i++) - 0.5);
      }
    }
  };
  draw({kEmbeddingTensor});
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    const auto name = [&](const char* part) { return layer_tensor(layer, part); };
    draw({name("self_attn.q_proj"), name("self_attn.k_proj"), name("self_attn.v_proj")});
    draw({name("self_attn.o_proj")});
    draw({name("mlp.gate_proj"), name("mlp.up_proj")});
    draw({name("mlp.down_proj")});
  }
  draw({kLmHeadTensor});
  return pack_weights(config, model.stored(), Dtype::kFloat32);
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
