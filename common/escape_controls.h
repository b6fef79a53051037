// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// The text with each control character as \xNN, for terminals and log lines. Otherwise text could control the terminal
// or forge a line. Pure.
std::string escape_controls(std::string_view text);

}  // namespace slip
