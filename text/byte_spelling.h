// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace slip {

// The byte-fallback spelling of a byte, such as "<0x0A>".
inline std::string fallback_spelling(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
  return text;
}

// The inverse: the byte that `text` spells, in upper or lower case; −1 if it is no such spelling.
inline int spelled_byte(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high << 4 | low;
}

}  // namespace slip
