// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "server/openai/call.h"

namespace slip {

// Reads the `prompt` of a completion: a text, a list of token ids, a list of texts or a list of token lists. Throws
// Error{kInvalidArgument} whose param() is "prompt" or a place in it, such as "prompt[1]". Pure.
std::vector<Prompt> read_prompt_field(const nlohmann::json& value);

}  // namespace slip
