// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoints/model_config.h"
#include "checkpoints/strict_json.h"

namespace slip {

// The differences between the supported architectures: biases of projections, norms of queries and keys, windowed
// layers, and the defaults of absent keys. Source: transformers' configuration and modelling files of each architecture
// (4.57 and 5.x).

// The architecture's name, from `architectures` or derived from `model_type`. Error{kUnsupported | kInvalidArgument}.
std::string read_architecture(const JsonFields& fields);

// The defaults of `head_dim` and `num_key_value_heads`. REQUIRES: config.architecture, n_heads and hidden_size.
std::int32_t default_head_dim(const JsonFields& fields, const ModelConfig& config);
std::int32_t default_kv_heads(const JsonFields& fields, const ModelConfig& config);

// Sets biases, norms and windows. REQUIRES: config.architecture and n_layers.
void read_layer_features(const JsonFields& fields, ModelConfig& config);

// The same features as keys of config.json, including model_type.
nlohmann::json layer_feature_json(const ModelConfig& config);

}  // namespace slip
