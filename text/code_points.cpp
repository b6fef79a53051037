// SPDX-License-Identifier: Apache-2.0
#include "text/code_points.h"

#include <unicode/uchar.h>

#include "text/utf8.h"

namespace slip {

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const Utf8Step step = next_utf8(text);
  if (step.kind != Utf8Step::Kind::kValid) return {};
  std::int32_t value = lead & (0xFF >> (step.bytes + 1));
  for (std::size_t i = 1; i < step.bytes; ++i) value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  return {value, step.bytes};
}

CodePoint last_code_point(std::string_view text) {
  std::size_t length = 1;
  while (length < 4 && length < text.size() && (text[text.size() - length] & 0xC0) == 0x80) ++length;
  const CodePoint last = first_code_point(text.substr(text.size() - length));
  return last.bytes == length ? last : CodePoint{};
}

void append_utf8(std::int32_t code_point, std::string& out) {
  const auto put = [&](int byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

bool is_white_space(std::int32_t code_point) {
  return code_point >= 0 && u_isUWhiteSpace(code_point) != 0;
}

bool is_number(std::int32_t code_point) {
  return code_point >= 0 && (U_GET_GC_MASK(code_point) & U_GC_N_MASK) != 0;
}

bool is_punctuation(std::int32_t code_point) {
  if (code_point < 0) return false;
  if (code_point < 0x80) return u_ispunct(code_point) != 0 || (U_GET_GC_MASK(code_point) & U_GC_S_MASK) != 0;
  return (U_GET_GC_MASK(code_point) & U_GC_P_MASK) != 0;
}

bool is_word(std::int32_t code_point) {
  if (code_point < 0) return false;
  return u_isUAlphabetic(code_point) != 0 || u_hasBinaryProperty(code_point, UCHAR_JOIN_CONTROL) != 0 ||
         (U_GET_GC_MASK(code_point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace slip
