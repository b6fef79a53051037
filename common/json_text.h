// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// The text as a quoted JSON string: controls (C0, DEL and C1) escaped, invalid UTF-8 replaced by U+FFFD. For folders
// that may not depend on a JSON library.
std::string json_quoted(std::string_view text);

}  // namespace slip
