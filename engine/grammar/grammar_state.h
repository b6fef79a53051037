// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"

namespace slip {

// A call that has not returned. Immutable; shared by all threads that came through it.
struct GrammarFrame {
  std::int32_t return_to = -1;
  std::int32_t count = 0;  // the caller's count
  std::int32_t depth = 0;  // nested calls, this one included
  std::shared_ptr<const GrammarFrame> below;
};

// One parse of the text so far: a position inside a lexeme, with open calls.
struct GrammarThread {
  std::int32_t node = -1;  // a kLexeme
  std::int32_t state = 0;  // of its automaton
  std::int32_t count = 0;
  std::shared_ptr<const GrammarFrame> calls;
};

// All parses of the text so far; they decide what may follow. A value type: copy it to fork, keep the older copy to
// roll back. Every thread can be finished, so a state that is alive never leads to a dead end.
class GrammarState {
 public:
  static constexpr std::size_t kMostThreads = 1024;

  GrammarState() = default;  // dead
  // Before the first byte. Error{kInvalidArgument} as step().
  static GrammarState start(const Grammar& grammar);
  // The state after the lexeme that `thread` is in.
  static GrammarState after(const Grammar& grammar, const GrammarThread& thread);

  // Writes the state one byte later to `out`. Error{kInvalidArgument} when the text has more than kMostThreads parses.
  // REQUIRES: `grammar` is the one it was started with; `out` is another object.
  void step(const Grammar& grammar, std::uint8_t byte, GrammarState& out) const;
  // Reads a text; returns false, and is dead, when no document continues so.
  bool advance(const Grammar& grammar, std::string_view bytes);

  bool is_alive() const { return complete_ || !threads_.empty(); }
  bool is_complete() const { return complete_; }     // the text is a document
  bool is_over() const { return threads_.empty(); }  // no byte may follow
  const std::vector<GrammarThread>& threads() const { return threads_; }
  // Appends a key that is unique among all states of this grammar.
  void append_key(std::string& out) const;

 private:
  class Entering;
  std::vector<GrammarThread> threads_;
  bool complete_ = false;
};

}  // namespace slip
