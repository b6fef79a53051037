// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace slip {

// server/openai/openapi.json, as it was when the program was built.
std::string_view openapi_document();

}  // namespace slip
