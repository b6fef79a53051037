// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoints/model_config.h"

namespace slip {

// What a page pool reads of a small model's shape.
inline ModelConfig cache_shape() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

}  // namespace slip
