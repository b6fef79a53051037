// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/byte_automaton.h"

namespace slip {

using Lexeme = std::shared_ptr<const ByteAutomaton>;

// The pieces that JSON text is made of, each built once in the process. Between two pieces stands at most one gap: one
// space, or a line end and its indent of up to kMostIndent blanks and tabs. Neither before nor after the document is
// there one. A grammar that let more through would let a model that leans to blanks write nothing else.
struct JsonLexemes {
  static constexpr std::int32_t kMostIndent = 20;

  Lexeme open_object, open_array;    // the bracket, then a gap
  Lexeme close_object, close_array;  // a gap, then the bracket
  Lexeme close_empty_object, close_empty_array;
  Lexeme colon, comma;  // between gaps
  Lexeme string, number, integer, boolean, null;
  Lexeme scalar;  // any of string, number, boolean, null

  static const JsonLexemes& shared();  // any thread
};

// One of the texts, exactly.
ByteAutomaton literals(std::vector<std::string> texts, AutomatonBudget& budget);
// Strings of so many code points, canonically spelled, which keeps the automaton small; `most` < 0: no upper bound.
ByteAutomaton counted_string(std::int32_t least, std::int32_t most, AutomatonBudget& budget);
// Strings in canonical spelling other than those of `texts`, which are quoted.
ByteAutomaton string_besides(const std::vector<std::string>& texts, AutomatonBudget& budget);

}  // namespace slip
