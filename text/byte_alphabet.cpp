// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace slip {

namespace {

constexpr int kFirstStandIn = 0x100;
constexpr int kStandIns = 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
  std::array<int, 256> code_points{};                           // by byte
  std::array<std::int16_t, kFirstStandIn + kStandIns> bytes{};  // by code point; −1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  int next = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = stands_for_itself(byte) ? byte : next++;
    alphabet.code_points[static_cast<std::size_t>(byte)] = code_point;
    alphabet.bytes[static_cast<std::size_t>(code_point)] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string out;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    std::size_t code_point = static_cast<unsigned char>(spelling[i]);
    if (code_point >= 0x80) {  // every code point of the alphabet takes one or two bytes of UTF-8
      if ((code_point & 0xE0) != 0xC0 || i + 1 == spelling.size()) return std::nullopt;
      code_point = (code_point & 0x1F) << 6 | (static_cast<unsigned char>(spelling[++i]) & 0x3F);
    }
    if (code_point >= kAlphabet.bytes.size() || kAlphabet.bytes[code_point] < 0) return std::nullopt;
    out += static_cast<char>(kAlphabet.bytes[code_point]);
  }
  return out;
}

std::string spelling_of_byte(unsigned char byte) {
  const int code_point = kAlphabet.code_points[byte];
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

}  // namespace slip
