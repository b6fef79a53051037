// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoints/safetensors.h"

namespace slip {

// Whether no value of a tensor is a NaN or an infinity. Reads all of it. Pure.
bool is_finite(const StoredTensor& tensor);

}  // namespace slip
