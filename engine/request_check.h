// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/request.h"

namespace slip {

// The limits of this engine.
struct RequestLimits {
  std::int32_t vocab_size = 0;
  std::int32_t max_positions = 0;
  std::int32_t cache_tokens = 0;  // slots of the whole cache
  bool has_tokenizer = false;
};

// Throws Error{kInvalidArgument | kTooLarge} whose param names the invalid field. Pure.
void check_request(const Request& request, const RequestLimits& limits);

}  // namespace slip
