// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

// The first character of a byte string. An invalid step covers a maximal ill-formed part (Unicode, table 3-7), so
// replacing each by one U+FFFD matches other decoders.
struct Utf8Step {
  enum class Kind : std::uint8_t { kValid, kInvalid, kIncomplete };  // kIncomplete: more bytes could complete it
  Kind kind = Kind::kValid;
  std::size_t bytes = 0;
};
Utf8Step next_utf8(std::string_view text);  // REQUIRES: not empty

std::size_t valid_utf8_prefix(std::string_view text);    // bytes
std::size_t invalid_utf8_prefix(std::string_view text);  // bytes, including an incomplete character

enum class Utf8Repair : std::uint8_t {
  kPerPart,  // one U+FFFD per maximal ill-formed part, as in byte-level decoders
  kPerByte,  // one U+FFFD per byte, as in byte-fallback decoders
};
// Moves whole characters from `pending` to the end of `out` and replaces invalid parts. An incomplete end stays in
// `pending`.
void take_whole_characters(std::string& pending, std::string& out, Utf8Repair repair = Utf8Repair::kPerPart);
// As above, but also replaces an incomplete end.
void take_all_characters(std::string& pending, std::string& out, Utf8Repair repair);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace slip
