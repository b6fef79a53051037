// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoints/model_config.h"
#include "checkpoints/strict_json.h"

namespace slip {

// What the architectures we serve differ in: which projections have a bias, whether queries and keys are normed, which
// layers see a window only, and what an absent key means. Facts are those of transformers' configuration and modelling
// files of each architecture (4.57 and 5.x).

// The name in `architectures`, or the one that `model_type` stands for. Error{kUnsupported | kInvalidArgument}.
std::string read_architecture(const JsonFields& fields);

// What an absent `head_dim` and `num_key_value_heads` mean. REQUIRES: config.architecture, n_heads and hidden_size.
std::int32_t default_head_dim(const JsonFields& fields, const ModelConfig& config);
std::int32_t default_kv_heads(const JsonFields& fields, const ModelConfig& config);

// Fills biases, norms and windows. REQUIRES: config.architecture and n_layers.
void read_layer_features(const JsonFields& fields, ModelConfig& config);

// The keys of config.json that say the same; model_type among them.
nlohmann::json layer_feature_json(const ModelConfig& config);

}  // namespace slip
