// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"

namespace slip {

// A call that has not returned. Shared by all threads that came through it, never changed.
struct GrammarFrame {
  std::int32_t return_to = -1;
  std::int32_t count = 0;  // the caller's
  std::int32_t depth = 0;  // calls up to and with this one
  std::shared_ptr<const GrammarFrame> below;
};

// One way to read what was written so far: in the middle of a lexeme, with calls still open.
struct GrammarThread {
  std::int32_t node = -1;  // a kLexeme
  std::int32_t state = 0;  // of its automaton
  std::int32_t count = 0;
  std::shared_ptr<const GrammarFrame> calls;
};

// All ways to read it: what a row of an answer may go on with. A value: a copy is a fork, keeping the older copy is the
// way back. Every thread can be finished, so a state that is alive never leads to a dead end.
class GrammarState {
 public:
  static constexpr std::size_t kMostThreads = 1024;

  GrammarState() = default;  // dead
  // Before the first byte. Error{kInvalidArgument} as step().
  static GrammarState start(const Grammar& grammar);
  // What follows the lexeme that `thread` is in.
  static GrammarState after(const Grammar& grammar, const GrammarThread& thread);

  // The state one byte later, in `out`. Error{kInvalidArgument} when the text can be read in more than kMostThreads
  // ways. REQUIRES: `grammar` is the one it was started with; `out` is another object.
  void step(const Grammar& grammar, std::uint8_t byte, GrammarState& out) const;
  // The same for a text; false, and dead, when no document goes on so.
  bool advance(const Grammar& grammar, std::string_view bytes);

  bool is_alive() const { return complete_ || !threads_.empty(); }
  bool is_complete() const { return complete_; }     // what was written is a document
  bool is_over() const { return threads_.empty(); }  // no byte may follow
  const std::vector<GrammarThread>& threads() const { return threads_; }
  // Appends what tells this state from all others of its grammar.
  void append_key(std::string& out) const;

 private:
  class Entering;
  std::vector<GrammarThread> threads_;
  bool complete_ = false;
};

}  // namespace slip
