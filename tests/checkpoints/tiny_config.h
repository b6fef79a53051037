// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoints/model_config.h"

namespace slip::testing {

inline constexpr std::int32_t kTinyVocab = 64;

// The shape of a small Llama; a test names what it needs to be different. The defaults are of 13k parameters: a draft
// that is trained in seconds.
struct TinyShape {
  std::int32_t vocab_size = kTinyVocab;
  std::int32_t hidden_size = 32;
  std::int32_t intermediate_size = 64;
  std::int32_t n_layers = 1;
  std::int32_t n_heads = 2;
  std::int32_t n_kv_heads = (n_heads + 1) / 2;
  std::int32_t head_dim = hidden_size / n_heads;
  std::int32_t max_positions = 256;
  bool tied_embeddings = true;
  std::vector<std::int32_t> eos_ids;
};

inline ModelConfig tiny_config(const TinyShape& shape = {}) {
  return {.vocab_size = shape.vocab_size,
          .hidden_size = shape.hidden_size,
          .intermediate_size = shape.intermediate_size,
          .n_layers = shape.n_layers,
          .n_heads = shape.n_heads,
          .n_kv_heads = shape.n_kv_heads,
          .head_dim = shape.head_dim,
          .max_positions = shape.max_positions,
          .tied_embeddings = shape.tied_embeddings,
          .eos_ids = shape.eos_ids};
}

}  // namespace slip::testing
