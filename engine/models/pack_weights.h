// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "checkpoints/model_config.h"
#include "checkpoints/safetensors.h"
#include "engine/models/transformer.h"

namespace slip {

// ModelWeights::load() for a checkpoint in memory, with the same bits as from a folder with these tensors. Checks
// names, shapes and finiteness (Error{kDataLoss} naming the tensor). The tensors are only read during the call.
std::shared_ptr<const ModelWeights> pack_weights(const ModelConfig& config, const TensorMap& tensors, Dtype dtype);

}  // namespace slip
