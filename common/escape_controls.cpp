// SPDX-License-Identifier: Apache-2.0
#include "common/escape_controls.h"

namespace slip {

// C0, DEL and the C1 controls (C2 80 … C2 9F in UTF-8), which terminals also obey.
std::string escape_controls(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    if (byte >= 0x20 && byte != 0x7F && !c1) {
      out += text[i];
      continue;
    }
    const unsigned control = c1 ? next : byte;
    out += "\\x";
    out += kHex[control >> 4];
    out += kHex[control & 15];
    if (c1) ++i;
  }
  return out;
}

}  // namespace slip
