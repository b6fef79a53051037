// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace slip {

// server/openai/openapi.json, embedded at build time.
std::string_view openapi_document();

}  // namespace slip
