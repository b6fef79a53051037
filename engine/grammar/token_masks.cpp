// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/token_masks.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/error.h"

namespace slip {

namespace {

void set(std::vector<std::uint64_t>& bits, std::int32_t id) {
  bits[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << static_cast<std::size_t>(id) % 64;
}

constexpr std::size_t kEntryBytes = 128;  // rough overhead of a hash table entry

}  // namespace

void keep_allowed(const TokenMask& mask, std::span<const std::int32_t> end_ids, std::span<float> logits) {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  // Saves the end tokens' logits: mask.ends decides about these tokens, not the mask's bits.
  std::vector<std::pair<std::size_t, float>> ends;
  for (const std::int32_t id : end_ids) ends.emplace_back(id, logits[static_cast<std::size_t>(id)]);
  for (std::size_t word = 0; word * 64 < logits.size(); ++word) {
    const std::uint64_t bits = word < mask.bits.size() ? mask.bits[word] : 0;
    const auto block = logits.subspan(word * 64, std::min<std::size_t>(64, logits.size() - word * 64));
    if (bits == 0) {
      std::fill(block.begin(), block.end(), kImpossible);
      continue;
    }
    // Most words of a mask allow nearly all tokens (inside a string) or nearly none.
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - block.size());
    for (std::uint64_t rest = ~bits & all; rest != 0; rest &= rest - 1) {
      block[static_cast<std::size_t>(std::countr_zero(rest))] = kImpossible;
    }
  }
  for (const auto& [id, logit] : ends) logits[id] = mask.ends ? logit : kImpossible;
  const auto is_possible = [](float logit) { return logit != kImpossible; };
  if (std::any_of(logits.begin(), logits.end(), is_possible)) return;
  if (std::any_of(end_ids.begin(), end_ids.end(), [&](std::int32_t id) { return mask.allows(id); })) {
    throw Error(ErrorCode::kInvalidArgument, "stop_token_ids has the only tokens that can continue the answer", {},
                "stop_token_ids");
  }
  throw Error(ErrorCode::kInvalidArgument, "no token of this model can continue the answer in the requested format", {},
              "response_format");
}

TokenMasks::TokenMasks(const std::vector<std::string_view>& texts, std::size_t most_bytes)
    : trie_(texts), most_bytes_(most_bytes), lexeme_states_(TokenTrie::kLongestToken + 1) {}

const TokenMask& TokenMasks::mask(const Grammar& grammar, const GrammarState& state) {
  const std::uint64_t serial = grammar.serial();
  key_.assign(reinterpret_cast<const char*>(&serial), sizeof serial);
  state.append_key(key_);
  const auto found = masks_.find(key_);
  if (found != masks_.end()) return found->second;
  make_room();
  TokenMask made = make_mask(grammar, state);
  bytes_ += key_.size() + made.bits.size() * sizeof(std::uint64_t) + kEntryBytes;
  return masks_.emplace(key_, std::move(made)).first->second;
}

void TokenMasks::make_room() {
  if (bytes_ <= most_bytes_) return;
  within_.clear();
  masks_.clear();
  bytes_ = 0;
}

TokenMask TokenMasks::make_mask(const Grammar& grammar, const GrammarState& state) {
  TokenMask made;
  made.bits.resize((trie_.n_tokens() + 63) / 64);
  made.ends = state.is_complete();
  for (const GrammarThread& thread : state.threads()) {
    const Within& inside = within(grammar.lexeme(grammar.node(thread.node).lexeme), thread.state);
    for (const std::int32_t id : inside.ids) set(made.bits, id);
    for (std::size_t i = 0; i < inside.bits.size(); ++i) made.bits[i] |= inside.bits[i];
    if (inside.exits.empty()) continue;
    const GrammarState behind = GrammarState::after(grammar, thread);
    for (const std::uint32_t exit : inside.exits) walk_behind(grammar, exit, behind, made);
  }
  return made;
}

const TokenMasks::Within& TokenMasks::within(const ByteAutomaton& lexeme, std::int32_t state) {
  const Key key{lexeme.serial(), state};
  const auto found = within_.find(key);
  if (found != within_.end()) return found->second;
  Within made = walk_within(lexeme, state);
  if (made.ids.size() * sizeof(std::int32_t) * 8 > trie_.n_tokens()) {
    made.bits.resize((trie_.n_tokens() + 63) / 64);
    for (const std::int32_t id : made.ids) set(made.bits, id);
    made.ids = {};
  }
  made.ids.shrink_to_fit();
  made.exits.shrink_to_fit();
  bytes_ += (made.ids.size() + made.exits.size()) * 4 + made.bits.size() * 8 + kEntryBytes;
  return within_.emplace(key, std::move(made)).first->second;
}

TokenMasks::Within TokenMasks::walk_within(const ByteAutomaton& lexeme, std::int32_t state) {
  Within made;
  lexeme_states_[0] = state;
  for (std::uint32_t i = 0; i < trie_.n_nodes();) {
    const TokenTrie::Node& node = trie_.node(i);
    const std::int32_t to = lexeme.step(lexeme_states_[node.depth - 1U], node.byte);
    if (to == ByteAutomaton::kDead) {
      i = node.end;
      continue;
    }
    lexeme_states_[node.depth] = to;
    const auto ids = trie_.ids_at(i);
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
    if (node.end > i + 1 && lexeme.accepts(to)) made.exits.push_back(i);
    ++i;
  }
  return made;
}

// Adds the tokens below `exit`; `state` is the state after the bytes up to there.
void TokenMasks::walk_behind(const Grammar& grammar, std::uint32_t exit, const GrammarState& state, TokenMask& mask) {
  const std::uint32_t base = trie_.node(exit).depth;
  for (std::uint32_t i = exit + 1; i < trie_.node(exit).end;) {
    const TokenTrie::Node& node = trie_.node(i);
    const std::size_t level = node.depth - base - 1;
    if (levels_.size() <= level) levels_.resize(level + 1);
    (level == 0 ? state : levels_[level - 1]).step(grammar, node.byte, levels_[level]);
    if (!levels_[level].is_alive()) {
      i = node.end;
      continue;
    }
    for (const std::int32_t id : trie_.ids_at(i)) set(mask.bits, id);
    ++i;
  }
}

}  // namespace slip
