// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

// One character of a text. A byte outside valid UTF-8 is a character of its own, without a code point or properties.
struct CodePoint {
  static constexpr std::int32_t kInvalid = -1;
  std::int32_t value = kInvalid;
  std::size_t bytes = 1;
};
CodePoint first_code_point(std::string_view text);  // REQUIRES: not empty
CodePoint last_code_point(std::string_view text);   // REQUIRES: not empty
void append_utf8(std::int32_t code_point, std::string& out);

// Unicode properties, from ICU.
bool is_white_space(std::int32_t code_point);
bool is_number(std::int32_t code_point);       // categories Nd, Nl, No
bool is_punctuation(std::int32_t code_point);  // categories P…, and ASCII symbols
bool is_word(std::int32_t code_point);         // \w of Unicode Technical Standard 18

}  // namespace slip
