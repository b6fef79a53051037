// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar_state.h"
#include "engine/grammar/token_trie.h"

namespace slip {

// The set of tokens that keep an answer within its grammar.
struct TokenMask {
  std::vector<std::uint64_t> bits;  // bit id % 64 of word id / 64
  bool ends = false;                // the answer may end here
  bool allows(std::int32_t id) const {
    const auto index = static_cast<std::size_t>(id);
    return index / 64 < bits.size() && (bits[index / 64] >> index % 64 & 1) != 0;
  }
};

// Sets every logit that the mask forbids to −inf. `end_ids` are allowed only where the answer may end, whatever their
// text. Error{kInvalidArgument} when no token is left. Pure.
void keep_allowed(const TokenMask& mask, std::span<const std::int32_t> end_ids, std::span<float> logits);

// Computes and caches masks for the states of any grammar over one vocabulary. Inside a lexeme, the effect of a token's
// bytes depends on the lexeme's state alone, so that part is computed once for each state of each lexeme. Tokens in
// which a lexeme ends are walked for each state of the grammar. Threads: one.
class TokenMasks {
 public:
  // Both caches are dropped completely when they exceed `most_bytes` together.
  explicit TokenMasks(const std::vector<std::string_view>& texts, std::size_t most_bytes = std::size_t{64} << 20);

  // Valid until the next call. Errors: as GrammarState::step.
  const TokenMask& mask(const Grammar& grammar, const GrammarState& state);
  std::string_view text(std::int32_t token) const { return trie_.text(token); }

 private:
  // The tokens that begin in one state of a lexeme: those that stay within it, and the trie nodes at which the lexeme
  // may end before the token does.
  struct Within {
    std::vector<std::uint64_t> bits;  // empty: they are in `ids`
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> exits;
  };
  struct Key {
    std::uint64_t lexeme;
    std::int32_t state;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return (key.lexeme << 20 ^ static_cast<std::uint64_t>(key.state)) * 0x9E3779B97F4A7C15;
    }
  };

  const Within& within(const ByteAutomaton& lexeme, std::int32_t state);
  Within walk_within(const ByteAutomaton& lexeme, std::int32_t state);
  TokenMask make_mask(const Grammar& grammar, const GrammarState& state);
  void walk_behind(const Grammar& grammar, std::uint32_t node, const GrammarState& state, TokenMask& mask);
  void make_room();

  const TokenTrie trie_;
  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<Key, Within, KeyHash> within_;
  std::unordered_map<std::string, TokenMask> masks_;
  std::string key_;
  std::vector<GrammarState> levels_;         // walk_behind(): the state at each depth
  std::vector<std::int32_t> lexeme_states_;  // walk_within(): likewise
};

}  // namespace slip
