// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The spelling byte-level BPE gives to raw bytes (Radford et al., 2019): printable Latin-1 bytes stand for themselves,
// the others for the code points from U+0100 on, in order, so that every vocabulary entry is readable text.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);  // nullopt: not of this alphabet
std::string spelling_of_byte(unsigned char byte);

}  // namespace slip
