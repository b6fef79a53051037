// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sample/distribution.h"
#include "server/request_fields.h"

namespace slip {

// temperature, top_p, top_k, min_p, the three penalties, logit_bias, min_tokens and seed, each of its exact type and
// within its range. Throws Error{kInvalidArgument} whose param() names the field. Pure.
SamplingParams read_sampling_fields(const RequestFields& fields);

}  // namespace slip
