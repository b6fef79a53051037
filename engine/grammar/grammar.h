// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/json_lexemes.h"

namespace slip {

// One node of a grammar. It stands for all that may follow it up to the end of its rule.
struct GrammarNode {
  enum class Kind : std::uint8_t {
    kLexeme,  // reads `lexeme`, then next[0]
    kFork,    // any one of `next`; without any, nothing may follow
    kCall,    // the rule that begins at `callee`, with its own count, then next[0]
    kReturn,  // the end of the rule
    kTally,   // adds one to the count, up to `high`; then next[0]
    kGuard,   // next[0] while low ≤ count ≤ high
  };
  Kind kind = Kind::kFork;
  std::int32_t lexeme = -1;
  std::int32_t callee = -1;
  std::int32_t low = 0, high = 0;
  std::vector<std::int32_t> next;
};

// A pushdown automaton over bytes. Its terminals (lexemes) are deterministic automata. Immutable; any thread. Masks
// never lead to a dead end: GrammarState enters only nodes whose rules can be finished within kMostDepth nested calls.
class Grammar {
 public:
  static constexpr std::int32_t kMostDepth = 64;       // nested calls: how deep a document nests
  static constexpr std::int32_t kMostNodes = 1 << 15;  // nodes of one grammar

  const GrammarNode& node(std::int32_t index) const { return nodes_[static_cast<std::size_t>(index)]; }
  const ByteAutomaton& lexeme(std::int32_t index) const { return *lexemes_[static_cast<std::size_t>(index)]; }
  std::int32_t root() const { return root_; }
  // Fewest nested calls that finish the rule from this node; more than kMostDepth if none can.
  std::int32_t least_depth(std::int32_t index) const { return least_depth_[static_cast<std::size_t>(index)]; }
  std::uint64_t serial() const { return serial_; }  // unique in the process

 private:
  friend class GrammarBuilder;
  Grammar();
  std::vector<GrammarNode> nodes_;
  std::vector<Lexeme> lexemes_;
  std::vector<std::int32_t> least_depth_;
  std::int32_t root_ = -1;
  std::uint64_t serial_;
};

// Builds a grammar from its end: a node is made after those that follow it. One thread.
class GrammarBuilder {
 public:
  // `where` names the part of the request that asks for the grammar, for errors. Error{kInvalidArgument} when there are
  // too many nodes.
  explicit GrammarBuilder(std::string where);

  std::int32_t dead() const { return kDeadNode; }
  std::int32_t end_of_rule() const { return kReturnNode; }
  std::int32_t lexeme(const Lexeme& automaton, std::int32_t next);
  std::int32_t fork(std::vector<std::int32_t> alternatives);
  // Fills a fork that was made empty, as needed for cycles.
  void set_fork(std::int32_t fork, std::vector<std::int32_t> alternatives);
  std::int32_t call(std::int32_t callee, std::int32_t next);
  std::int32_t tally(std::int32_t most, std::int32_t next);
  std::int32_t guard(std::int32_t low, std::int32_t high, std::int32_t next);
  std::int32_t any_value();  // the rule of any JSON value
  std::int32_t any_object(std::int32_t next);
  std::int32_t any_array(std::int32_t next);

  // Error{kInvalidArgument} when no document fits, or a rule calls itself before reading a byte.
  std::shared_ptr<const Grammar> finish(std::int32_t root);

 private:
  static constexpr std::int32_t kDeadNode = 0, kReturnNode = 1;
  std::int32_t add(GrammarNode node);
  std::vector<std::int32_t> silent_steps(std::int32_t index) const;
  void check_progress() const;
  void measure_depths();
  std::int32_t depth_through(const GrammarNode& node) const;

  std::string where_;
  std::shared_ptr<Grammar> made_;
  std::unordered_map<const ByteAutomaton*, std::int32_t> lexeme_indices_;
  std::int32_t any_value_ = -1;
};

// Any JSON object.
std::shared_ptr<const Grammar> json_object_grammar();

}  // namespace slip
