// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoints/safetensors.h"

namespace slip {

// Check that a tensor has no NaN and no infinity. Reads all of it. Pure.
bool is_finite(const StoredTensor& tensor);

}  // namespace slip
