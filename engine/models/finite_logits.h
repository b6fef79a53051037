// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/models/transformer.h"

namespace slip {

// Lets a target read one token and checks that the logits behind it are numbers. Weights with a NaN or an infinity, or
// too large for their dtype, would fail every request. Costs one decoding step; the worker's cache is as before.
// Error{kDataLoss} naming `where`, the model's folder. Thread: the worker's owner.
void require_finite_logits(Worker& worker, const std::string& where);

}  // namespace slip
