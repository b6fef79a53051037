// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/grammar/byte_nfa.h"

namespace slip {

struct CodePointRange {
  std::uint32_t first = 0, last = 0;  // inclusive
};
using CodePoints = std::vector<CodePointRange>;

inline constexpr std::uint32_t kLastCodePoint = 0x10FFFF;

CodePoints normalise(CodePoints points);  // ascending, disjoint and not adjacent, without surrogates
CodePoints complement(const CodePoints& points);

// One character of the set inside a JSON string, in its one canonical spelling: UTF-8, or the shortest escape where
// JSON needs one (lower-case digits).
ByteNfa::Fragment spell_canonically(ByteNfa& nfa, const CodePoints& points);
// One character in any spelling that JSON allows: UTF-8 as in table 3-7 of the Unicode standard, short escapes, and \u
// escapes with surrogates in pairs only.
ByteNfa::Fragment spell_anyhow(ByteNfa& nfa);

}  // namespace slip
