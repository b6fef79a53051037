// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace slip {

// A partition of the 256 byte values into ranges that an automaton treats alike.
class ByteClasses {
 public:
  ByteClasses() { begins_.set(0); }
  // Separates [low, high] from the bytes around it.
  void cut(std::uint8_t low, std::uint8_t high) {
    begins_.set(low);
    if (high < 255) begins_.set(high + 1U);
  }
  void cut_like(const ByteClasses& other) { begins_ |= other.begins_; }
  bool begins(std::size_t byte) const { return begins_.test(byte); }

 private:
  std::bitset<256> begins_;
};

// The remaining budget of building automata; `where` names the part of the request that asks for them. All of it is
// counted, since a client decides what is built.
struct AutomatonBudget {
  std::int32_t states_left = 1 << 16;
  std::int64_t steps_left = std::int64_t{1} << 22;  // also bounds the size of the finished tables: 4 bytes each
  std::int64_t looks_left = std::int64_t{1} << 27;  // edges of a nondeterministic automaton that are visited
  std::string where;
  // Error{kInvalidArgument} naming `where` when the budget is used up.
  void take_state();
  void take_steps(std::size_t n);
  void take_looks(std::size_t n);
};

// A deterministic automaton over bytes. Every state can still reach an accepting one; an automaton without states
// accepts nothing. State 0 is the first. Immutable once built.
class ByteAutomaton {
 public:
  static constexpr std::int32_t kDead = -1;

  explicit ByteAutomaton(const ByteClasses& classes);

  std::int32_t n_states() const { return static_cast<std::int32_t>(accepting_.size()); }
  bool accepts_nothing() const { return accepting_.empty(); }
  // REQUIRES: `state` is one of the automaton's.
  std::int32_t step(std::int32_t state, std::uint8_t byte) const {
    return next_[static_cast<std::size_t>(state) * first_bytes_.size() + class_of_[byte]];
  }
  bool accepts(std::int32_t state) const { return accepting_[static_cast<std::size_t>(state)] != 0; }
  bool goes_on(std::int32_t state) const { return goes_on_[static_cast<std::size_t>(state)] != 0; }  // has a transition
  const ByteClasses& classes() const { return classes_; }
  std::uint64_t serial() const { return serial_; }  // unique in the process: a key for caches

  // For explore() only.
  const std::vector<std::uint8_t>& first_bytes() const { return first_bytes_; }  // one of each class
  void add_transition(std::int32_t to) { next_.push_back(to); }
  void add_state(bool accepting) { accepting_.push_back(accepting ? 1 : 0); }
  void prune();  // drops states that reach no accepting one; call after the last state was added

 private:
  ByteClasses classes_;
  std::array<std::uint8_t, 256> class_of_{};
  std::vector<std::uint8_t> first_bytes_;
  std::vector<std::int32_t> next_;  // [n_states, n_classes]
  std::vector<std::uint8_t> accepting_, goes_on_;
  std::uint64_t serial_;
};

// Builds the automaton of all states that `step(state, byte)` reaches from `start`. `State` is ordered; `step` returns
// nullopt where no transition exists, and treats the bytes of a class alike.
template <class State, class Step, class Accepts>
ByteAutomaton explore(const ByteClasses& classes, const State& start, const Step& step, const Accepts& accepts,
                      AutomatonBudget& budget) {
  ByteAutomaton found(classes);
  std::map<State, std::int32_t> numbers;
  std::vector<const State*> states;  // by number; a map's keys stay where they are
  const auto number_of = [&](const State& state) {
    const auto [place, is_new] = numbers.try_emplace(state, static_cast<std::int32_t>(states.size()));
    if (is_new) {
      budget.take_state();
      states.push_back(&place->first);
    }
    return place->second;
  };
  number_of(start);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const State& from = *states[i];
    found.add_state(accepts(from));
    budget.take_steps(found.first_bytes().size());
    for (const std::uint8_t byte : found.first_bytes()) {
      const std::optional<State> to = step(from, byte);
      found.add_transition(to ? number_of(*to) : ByteAutomaton::kDead);
    }
  }
  found.prune();
  return found;
}

ByteAutomaton intersect(const ByteAutomaton& a, const ByteAutomaton& b, AutomatonBudget& budget);
ByteAutomaton subtract(const ByteAutomaton& a, const ByteAutomaton& b, AutomatonBudget& budget);  // a without b

}  // namespace slip
