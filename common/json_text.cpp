// SPDX-License-Identifier: Apache-2.0
#include "common/json_text.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace slip {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// Shortest form only, no surrogates, at most U+10FFFF (RFC 3629).
CodePoint code_point_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < n) return {};
  std::uint32_t value = first & (0x7FU >> n);
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool legal = value >= kLeast[n] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
  return legal ? CodePoint{value, n} : CodePoint{};
}

std::string escaped(std::uint32_t value) {
  std::array<char, 12> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(value));
  return text.data();
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const CodePoint point = code_point_at(text);
    const bool control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    if (point.bytes == 0) {
      out += "\xEF\xBF\xBD";
    } else if (control) {
      out += escaped(point.value);
    } else {
      if (point.value == '"' || point.value == '\\') out += '\\';
      out += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes == 0 ? 1 : point.bytes);
  }
  return out + '"';
}

}  // namespace slip
