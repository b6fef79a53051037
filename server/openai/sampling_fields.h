// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sampling/distribution.h"
#include "server/openai/request_fields.h"

namespace slip {

// Replaces special values that the engine does not know. A top_p of 0 becomes greedy decoding, since only the most
// likely token remains. A top_k of −1 becomes 0, which keeps all tokens. Pure.
void resolve_special_values(SamplingParams& sampling);

// Reads temperature, top_p, top_k, min_p, the three penalties, logit_bias, min_tokens and seed, each of its exact type
// and within its range. Throws Error{kInvalidArgument} whose param() names the field. Pure.
SamplingParams read_sampling_fields(const RequestFields& fields);

}  // namespace slip
