// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/checkpoints/tiny_config.h"

namespace slip {

// What a page pool reads of a small model's shape.
inline ModelConfig cache_shape() {
  return testing::tiny_config({.n_layers = 3, .n_heads = 4, .head_dim = 16});
}

}  // namespace slip
