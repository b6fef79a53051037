// SPDX-License-Identifier: Apache-2.0
#include "common/percent_decoding.h"

#include <charconv>

namespace slip {

std::optional<std::string> percent_decoded(std::string_view text) {
  constexpr int kHexadecimal = 16;
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    const std::string_view digits = text.substr(at + 1, 2);
    unsigned char byte = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, kHexadecimal).ptr;
    if (digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    at += 2;
  }
  return decoded;
}

}  // namespace slip
