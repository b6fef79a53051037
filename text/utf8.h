// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

// What stands at the beginning of some bytes. An invalid step covers a maximal ill-formed part (Unicode, table 3-7), so
// that replacing each by one U+FFFD gives what other decoders give.
struct Utf8Step {
  enum class Kind : std::uint8_t { kValid, kInvalid, kIncomplete };  // incomplete: more bytes could still complete it
  Kind kind = Kind::kValid;
  std::size_t bytes = 0;
};
Utf8Step next_utf8(std::string_view text);  // REQUIRES: not empty

std::size_t valid_utf8_prefix(std::string_view text);    // bytes
std::size_t invalid_utf8_prefix(std::string_view text);  // bytes, an incomplete character's included

enum class Utf8Repair : std::uint8_t {
  kPerPart,  // one U+FFFD for a maximal ill-formed part, as byte-level decoders have it
  kPerByte,  // one for each of its bytes, as byte-fallback decoders have it
};
// Moves whole characters from `pending` to the end of `out`, invalid parts replaced; keeps an incomplete end back.
void take_whole_characters(std::string& pending, std::string& out, Utf8Repair repair = Utf8Repair::kPerPart);
// Takes an incomplete end as well, replaced.
void take_all_characters(std::string& pending, std::string& out, Utf8Repair repair);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace slip
