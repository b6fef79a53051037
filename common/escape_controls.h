// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// The text for a terminal or a line of a log: each control character as \xNN, for a terminal obeys it and a line feed
// begins another line. Pure.
std::string escape_controls(std::string_view text);

}  // namespace slip
