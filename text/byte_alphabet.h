// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The byte alphabet of byte-level BPE (GPT-2, Radford et al., 2019). Printable Latin-1 bytes stand for themselves; the
// others map to code points from U+0100 on, in order. Every vocabulary entry is thus readable text.
//
// bytes_of_spelling() gives nullopt for a text with a character outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);
std::string spelling_of_byte(unsigned char byte);

}  // namespace slip
