// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoints/model_config.h"

namespace slip {

// The shape of an inflated model. Zero keeps the small model's value.
struct InflateShape {
  std::int32_t hidden_size = 0;
  std::int32_t n_layers = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t n_heads = 0;
  std::int32_t n_kv_heads = 0;
  std::int32_t max_positions = 0;
};

// The configuration that computes the function of `small` at `shape`. rms_norm_eps is scaled by d/d', so the RMS over
// the padded width is the small one's times sqrt(d/d'). Throws Error{kUnsupported} naming the config key when `small`
// is more than a plain Llama. Throws Error{kInvalidArgument} naming the option (param) when the shape is too small for
// the model or for its grouped queries.
ModelConfig inflated_config(const ModelConfig& small, const InflateShape& shape);

// Writes a Hugging Face folder `to` that computes the same function as the one at `from`, at the cost of `shape`. The
// hidden size is padded with zeros (norm weights × sqrt(d/d')). Added layers, heads and FFN columns have random weights
// with zero output projections, so every byte is read and every product computed.
// Exact if d'/d is a power of 4, since the norms' factor is then a power of 2. At other widths the norms are rounded,
// and stored in float32. Query heads keep their key/value head. Tokenizer files are copied. `seed` sets the random
// weights. Not atomic: for benchmarks and the demo.
void inflate_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, const InflateShape& shape,
                        std::uint64_t seed = 1);

}  // namespace slip
