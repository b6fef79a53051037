// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// The text as a JSON string with its quotes: controls (C0, DEL and C1) escaped, bytes that are no UTF-8 replaced by
// U+FFFD. For the few places below those that know a JSON library.
std::string json_quoted(std::string_view text);

}  // namespace slip
