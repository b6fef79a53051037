// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar_state.h"
#include "engine/grammar/schema_compiler.h"

namespace slip::testing {

inline std::shared_ptr<const Grammar> grammar_of(const std::string& schema) {
  return compile_schema(SchemaJson::parse(schema), "schema");
}

inline bool accepts(const Grammar& grammar, std::string_view text) {
  GrammarState state = GrammarState::start(grammar);
  return state.advance(grammar, text) && state.is_complete();
}

inline bool accepts(const ByteAutomaton& automaton, std::string_view text) {
  if (automaton.accepts_nothing()) return false;
  std::int32_t state = 0;
  for (const char one : text) {
    state = automaton.step(state, static_cast<std::uint8_t>(one));
    if (state == ByteAutomaton::kDead) return false;
  }
  return automaton.accepts(state);
}

inline std::string allowed_bytes(const Grammar& grammar, const GrammarState& state) {
  std::string allowed;
  GrammarState next;
  for (int byte = 0; byte < 256; ++byte) {
    state.step(grammar, static_cast<std::uint8_t>(byte), next);
    if (next.is_alive()) allowed.push_back(static_cast<char>(byte));
  }
  return allowed;
}

// Writes a document byte by byte within the grammar: at random for `n_free` bytes, then mostly by the byte that closes
// soonest. Choosing that byte always would never end a pattern such as \d+\. . Empty if the grammar led to a dead end.
inline std::string random_document(const Grammar& grammar, std::mt19937_64& random, std::size_t n_free = 60) {
  static const std::string closing = "\"}]0nt:,";
  std::string text;
  GrammarState state = GrammarState::start(grammar), next;
  while (true) {
    const std::string allowed = allowed_bytes(grammar, state);
    if (state.is_complete() && (allowed.empty() || text.size() >= n_free || random() % 2 == 0)) return text;
    if (allowed.empty() || text.size() > 100000) return {};
    char byte = allowed[random() % allowed.size()];
    if (text.size() >= n_free && random() % 4 != 0) {
      for (std::size_t i = closing.size(); i-- > 0;) {
        if (allowed.find(closing[i]) != std::string::npos) byte = closing[i];
      }
    } else if (random() % 3 == 0) {  // structure is rare among all bytes
      const char wanted = closing[random() % closing.size()];
      if (allowed.find(wanted) != std::string::npos) byte = wanted;
    }
    text.push_back(byte);
    state.step(grammar, static_cast<std::uint8_t>(byte), next);
    std::swap(state, next);
  }
}

}  // namespace slip::testing
