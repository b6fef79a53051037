// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "engine/models/transformer.h"

namespace slip::testing {

inline std::filesystem::path embedded_target_folder() {
  return std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
}

// Loaded once per test program and dtype.
inline std::shared_ptr<const ModelWeights> embedded_target(Dtype dtype) {
  static const auto load = [](Dtype wanted) { return ModelWeights::load(embedded_target_folder(), wanted); };
  if (dtype == Dtype::kFloat32) {
    static const auto float32 = load(Dtype::kFloat32);
    return float32;
  }
  static const auto bfloat16 = load(Dtype::kBFloat16);
  return bfloat16;
}

}  // namespace slip::testing
