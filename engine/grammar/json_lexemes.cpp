// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/json_lexemes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/grammar/byte_nfa.h"
#include "engine/grammar/characters.h"
#include "engine/grammar/number_automaton.h"

namespace slip {

namespace {

using Fragment = ByteNfa::Fragment;

Lexeme share(ByteAutomaton automaton) {
  return std::make_shared<const ByteAutomaton>(std::move(automaton));
}

Fragment gap(ByteNfa& nfa) {
  const Fragment line_end = nfa.then(nfa.maybe(nfa.literal("\r")), nfa.literal("\n"));
  const Fragment indent = nfa.repeat([&] { return nfa.any_of(" \t"); }, 0, JsonLexemes::kMostIndent);
  return nfa.maybe(nfa.either(nfa.literal(" "), nfa.then(line_end, indent)));
}

enum class Gaps : std::uint8_t { kNone, kBefore, kAfter, kAround };

Lexeme punctuation(const char* mark, Gaps gaps) {
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  Fragment whole = nfa.literal(mark);
  if (gaps == Gaps::kBefore || gaps == Gaps::kAround) whole = nfa.then(gap(nfa), whole);
  if (gaps == Gaps::kAfter || gaps == Gaps::kAround) whole = nfa.then(whole, gap(nfa));
  return share(nfa.determinise(whole));
}

Lexeme words(const std::vector<std::string>& texts) {
  AutomatonBudget budget;
  return share(literals(texts, budget));
}

Lexeme numbers(bool integer) {
  AutomatonBudget budget;
  return share(number_automaton({.integer = integer}, budget));
}

Lexeme strings() {
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  const Fragment characters = nfa.many(spell_anyhow(nfa));
  return share(nfa.determinise(nfa.then(nfa.literal("\""), nfa.then(characters, nfa.literal("\"")))));
}

// The union: runs both at once. The first bytes of a string, a number and a word differ.
ByteAutomaton either(const ByteAutomaton& a, const ByteAutomaton& b) {
  using Pair = std::pair<std::int32_t, std::int32_t>;
  AutomatonBudget budget;
  ByteClasses classes = a.classes();
  classes.cut_like(b.classes());
  constexpr std::int32_t kDead = ByteAutomaton::kDead;
  const auto step = [&](const Pair& from, std::uint8_t byte) -> std::optional<Pair> {
    const Pair to{from.first == kDead ? kDead : a.step(from.first, byte),
                  from.second == kDead ? kDead : b.step(from.second, byte)};
    if (to.first == kDead && to.second == kDead) return std::nullopt;
    return to;
  };
  const auto accepts = [&](const Pair& state) {
    return (state.first != kDead && a.accepts(state.first)) || (state.second != kDead && b.accepts(state.second));
  };
  return explore(classes, Pair{0, 0}, step, accepts, budget);
}

}  // namespace

const JsonLexemes& JsonLexemes::shared() {
  static const JsonLexemes all = [] {
    JsonLexemes made;
    made.open_object = punctuation("{", Gaps::kAfter);
    made.open_array = punctuation("[", Gaps::kAfter);
    made.close_object = punctuation("}", Gaps::kBefore);
    made.close_array = punctuation("]", Gaps::kBefore);
    made.close_empty_object = punctuation("}", Gaps::kNone);
    made.close_empty_array = punctuation("]", Gaps::kNone);
    made.colon = punctuation(":", Gaps::kAround);
    made.comma = punctuation(",", Gaps::kAround);
    made.string = strings();
    made.number = numbers(/*integer=*/false);
    made.integer = numbers(/*integer=*/true);
    made.boolean = words({"true", "false"});
    made.null = words({"null"});
    made.scalar = share(either(either(*made.string, *made.number), either(*made.boolean, *made.null)));
    return made;
  }();
  return all;
}

ByteAutomaton literals(std::vector<std::string> texts, AutomatonBudget& budget) {
  std::sort(texts.begin(), texts.end());
  ByteClasses classes;
  for (const std::string& text : texts) {
    for (const char one : text) classes.cut(static_cast<std::uint8_t>(one), static_cast<std::uint8_t>(one));
  }
  // Texts with a common prefix are adjacent: the range [first, last) of them, and the number of bytes read.
  using State = std::array<std::size_t, 3>;
  const auto step = [&](const State& from, std::uint8_t byte) -> std::optional<State> {
    const auto [first, last, n_read] = from;
    const auto comes_before = [n = n_read](const std::string& text, int next) {
      return (n < text.size() ? static_cast<std::uint8_t>(text[n]) : -1) < next;
    };
    const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = texts.begin() + static_cast<std::ptrdiff_t>(last);
    const auto low = std::lower_bound(begin, end, byte, comes_before);
    const auto high = std::lower_bound(low, end, byte + 1, comes_before);
    if (low == high) return std::nullopt;
    return State{static_cast<std::size_t>(low - texts.begin()), static_cast<std::size_t>(high - texts.begin()),
                 n_read + 1};
  };
  const auto accepts = [&](const State& state) { return state[0] < state[1] && texts[state[0]].size() == state[2]; };
  return explore(classes, State{0, texts.size(), 0}, step, accepts, budget);
}

ByteAutomaton counted_string(std::int32_t least, std::int32_t most, AutomatonBudget& budget) {
  ByteNfa nfa(budget);
  const ByteAutomaton character = nfa.determinise(spell_canonically(nfa, {{0, kLastCodePoint}}));
  ByteClasses classes = character.classes();
  classes.cut('"', '"');
  constexpr std::int32_t kUnopened = -2, kClosed = -1;
  // Characters so far (counted beyond `least` only if there is a `most`), and the state within the next one.
  using State = std::pair<std::int32_t, std::int32_t>;
  const auto step = [&](const State& from, std::uint8_t byte) -> std::optional<State> {
    const auto [n, within] = from;
    if (n == kUnopened) return byte == '"' ? std::optional(State{0, 0}) : std::nullopt;
    if (n == kClosed) return std::nullopt;
    if (within == 0 && byte == '"') return n >= least ? std::optional(State{kClosed, 0}) : std::nullopt;
    const std::int32_t to = n == most ? ByteAutomaton::kDead : character.step(within, byte);
    if (to == ByteAutomaton::kDead) return std::nullopt;
    if (!character.accepts(to)) return State{n, to};
    return State{most < 0 ? std::min(n + 1, least) : n + 1, 0};
  };
  const auto accepts = [](const State& state) { return state.first == kClosed; };
  return explore(classes, State{kUnopened, 0}, step, accepts, budget);
}

ByteAutomaton string_besides(const std::vector<std::string>& texts, AutomatonBudget& budget) {
  ByteNfa nfa(budget);
  const Fragment characters = nfa.many(spell_canonically(nfa, {{0, kLastCodePoint}}));
  const Fragment quoted = nfa.then(nfa.literal("\""), nfa.then(characters, nfa.literal("\"")));
  const ByteAutomaton all = nfa.determinise(quoted);
  return texts.empty() ? all : subtract(all, literals(texts, budget), budget);
}

}  // namespace slip
