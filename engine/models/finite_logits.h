// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/models/transformer.h"

namespace slip {

// Runs a target on one token and checks that its logits are finite. Weights with a NaN or an infinity, or too large for
// their dtype, would fail every request. Costs one decoding step; leaves the worker's cache as it was. Error{kDataLoss}
// naming `where`, the model's folder. Thread: the worker's owner.
void require_finite_logits(Worker& worker, const std::string& where);

}  // namespace slip
