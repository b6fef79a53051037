// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/byte_automaton.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/error.h"

namespace slip {

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

[[noreturn]] void refuse_as_too_large(const std::string& where) {
  throw Error(ErrorCode::kInvalidArgument, "'" + where + "' makes the grammar too large",
              "ask for shorter strings, simpler patterns, fewer values or a smaller multipleOf", where);
}

ByteClasses classes_of_both(const ByteAutomaton& a, const ByteAutomaton& b) {
  ByteClasses classes = a.classes();
  classes.cut_like(b.classes());
  return classes;
}

}  // namespace

void AutomatonBudget::take_state() {
  if (--states_left < 0) refuse_as_too_large(where);
}

void AutomatonBudget::take_steps(std::size_t n) {
  steps_left -= static_cast<std::int64_t>(n);
  if (steps_left < 0) refuse_as_too_large(where);
}

void AutomatonBudget::take_looks(std::size_t n) {
  looks_left -= static_cast<std::int64_t>(n);
  if (looks_left < 0) refuse_as_too_large(where);
}

ByteAutomaton::ByteAutomaton(const ByteClasses& classes) : classes_(classes), serial_(next_serial()) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (classes.begins(byte)) first_bytes_.push_back(static_cast<std::uint8_t>(byte));
    class_of_[byte] = static_cast<std::uint8_t>(first_bytes_.size() - 1);
  }
}

void ByteAutomaton::prune() {
  const std::size_t n_classes = first_bytes_.size();
  std::vector<std::uint8_t> useful = accepting_;
  // States are numbered in the order they were reached, so one pass from the last finds most of them.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t state = useful.size(); state-- > 0;) {
      if (useful[state] != 0) continue;
      const auto row = next_.begin() + static_cast<std::ptrdiff_t>(state * n_classes);
      useful[state] = std::any_of(row, row + static_cast<std::ptrdiff_t>(n_classes), [&](std::int32_t to) {
        return to != kDead && useful[static_cast<std::size_t>(to)] != 0;
      });
      changed = changed || useful[state] != 0;
    }
  }
  std::vector<std::int32_t> renamed(useful.size(), kDead);
  std::int32_t n_kept = 0;
  for (std::size_t state = 0; state < useful.size() && useful[0] != 0; ++state) {
    if (useful[state] != 0) renamed[state] = n_kept++;
  }
  std::size_t to = 0;
  for (std::size_t state = 0; state < useful.size(); ++state) {
    if (renamed[state] == kDead) continue;
    for (std::size_t i = 0; i < n_classes; ++i) {
      const std::int32_t target = next_[state * n_classes + i];
      next_[to * n_classes + i] = target == kDead ? kDead : renamed[static_cast<std::size_t>(target)];
    }
    accepting_[to++] = accepting_[state];
  }
  next_.resize(to * n_classes);
  next_.shrink_to_fit();
  accepting_.resize(to);
  goes_on_.resize(to);
  for (std::size_t i = 0; i < next_.size(); ++i) goes_on_[i / n_classes] |= next_[i] != kDead ? 1 : 0;
}

ByteAutomaton intersect(const ByteAutomaton& a, const ByteAutomaton& b, AutomatonBudget& budget) {
  using Pair = std::pair<std::int32_t, std::int32_t>;
  if (a.accepts_nothing() || b.accepts_nothing()) return ByteAutomaton(a.classes());
  const auto step = [&](const Pair& from, std::uint8_t byte) -> std::optional<Pair> {
    const Pair to{a.step(from.first, byte), b.step(from.second, byte)};
    if (to.first == ByteAutomaton::kDead || to.second == ByteAutomaton::kDead) return std::nullopt;
    return to;
  };
  const auto accepts = [&](const Pair& state) { return a.accepts(state.first) && b.accepts(state.second); };
  return explore(classes_of_both(a, b), Pair{0, 0}, step, accepts, budget);
}

ByteAutomaton subtract(const ByteAutomaton& a, const ByteAutomaton& b, AutomatonBudget& budget) {
  using Pair = std::pair<std::int32_t, std::int32_t>;
  if (a.accepts_nothing() || b.accepts_nothing()) return a;
  const auto step = [&](const Pair& from, std::uint8_t byte) -> std::optional<Pair> {
    const std::int32_t kept = a.step(from.first, byte);
    if (kept == ByteAutomaton::kDead) return std::nullopt;
    const bool gone = from.second == ByteAutomaton::kDead;
    return Pair{kept, gone ? ByteAutomaton::kDead : b.step(from.second, byte)};
  };
  const auto accepts = [&](const Pair& state) {
    return a.accepts(state.first) && !(state.second != ByteAutomaton::kDead && b.accepts(state.second));
  };
  return explore(classes_of_both(a, b), Pair{0, 0}, step, accepts, budget);
}

}  // namespace slip
