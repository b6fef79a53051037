// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/byte_automaton.h"

namespace slip {

using Lexeme = std::shared_ptr<const ByteAutomaton>;

// The lexemes of JSON text, each built once per process. Between two lexemes there is at most one gap: one space, or a
// line end with an indent of up to kMostIndent blanks and tabs. There is no gap before or after the document. A grammar
// that allowed more would let a model that prefers blanks write nothing else.
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

// Exactly one of the texts.
ByteAutomaton literals(std::vector<std::string> texts, AutomatonBudget& budget);
// Strings of `least` to `most` code points in canonical spelling, which keeps the automaton small; `most` < 0: no upper
// bound.
ByteAutomaton counted_string(std::int32_t least, std::int32_t most, AutomatonBudget& budget);
// Strings in canonical spelling except `texts`, which are quoted.
ByteAutomaton string_besides(const std::vector<std::string>& texts, AutomatonBudget& budget);

}  // namespace slip
