// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoints/model_config.h"

namespace slip {

// A larger shape for the same function. Zero keeps the small model's value.
struct InflateShape {
  std::int32_t hidden_size = 0;
  std::int32_t n_layers = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t n_heads = 0;
  std::int32_t n_kv_heads = 0;
  std::int32_t max_positions = 0;
};

// The configuration of `small` computing its function at `shape`: rms_norm_eps × d/d', so that a root mean square over
// the padded width is the small one's times sqrt(d/d'). Throws Error{kUnsupported} naming the config key when `small`
// is more than a plain Llama, and Error{kInvalidArgument} naming the option (param) when the shape is smaller than the
// model or when its heads cannot hold the small one's grouped queries.
ModelConfig inflated_config(const ModelConfig& small, const InflateShape& shape);

// Writes to `to` a Hugging Face folder that computes what the one at `from` computes, at the price of `shape`: the
// hidden size is padded with zeros (norm weights × sqrt(d/d')), and further layers, heads and FFN columns hold random
// weights whose output projections are zero, so that every byte is read and every product formed. Exactly so where d'/d
// is a power of 4, which makes the factor one of 2; at other widths up to a rounding of the norms, which are then
// stored in float32. Query heads keep their key/value head. Tokenizer files are copied. `seed` fills the random
// weights. Not atomic: for benchmarks and the demo.
void inflate_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, const InflateShape& shape,
                        std::uint64_t seed = 1);

}  // namespace slip
