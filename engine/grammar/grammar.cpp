// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/error.h"

namespace slip {

namespace {

constexpr std::int32_t kNever = Grammar::kMostDepth + 1;

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Grammar::Grammar() : serial_(next_serial()) {}

GrammarBuilder::GrammarBuilder(std::string where) : where_(std::move(where)), made_(new Grammar) {
  fork({});                                   // kDeadNode
  add({.kind = GrammarNode::Kind::kReturn});  // kReturnNode
}

std::int32_t GrammarBuilder::add(GrammarNode node) {
  if (static_cast<std::int32_t>(made_->nodes_.size()) == Grammar::kMostNodes) {
    throw Error(ErrorCode::kInvalidArgument, "'" + where_ + "' makes the grammar too large", "ask for less at once",
                where_);
  }
  made_->nodes_.push_back(std::move(node));
  return static_cast<std::int32_t>(made_->nodes_.size()) - 1;
}

std::int32_t GrammarBuilder::lexeme(const Lexeme& automaton, std::int32_t next) {
  if (automaton->accepts_nothing()) return dead();
  const auto n_lexemes = static_cast<std::int32_t>(made_->lexemes_.size());
  const auto [found, is_new] = lexeme_indices_.try_emplace(automaton.get(), n_lexemes);
  if (is_new) made_->lexemes_.push_back(automaton);
  return add({.kind = GrammarNode::Kind::kLexeme, .lexeme = found->second, .next = {next}});
}

std::int32_t GrammarBuilder::fork(std::vector<std::int32_t> alternatives) {
  return add({.kind = GrammarNode::Kind::kFork, .next = std::move(alternatives)});
}

void GrammarBuilder::set_fork(std::int32_t fork, std::vector<std::int32_t> alternatives) {
  made_->nodes_[static_cast<std::size_t>(fork)].next = std::move(alternatives);
}

std::int32_t GrammarBuilder::call(std::int32_t callee, std::int32_t next) {
  return add({.kind = GrammarNode::Kind::kCall, .callee = callee, .next = {next}});
}

std::int32_t GrammarBuilder::tally(std::int32_t most, std::int32_t next) {
  return add({.kind = GrammarNode::Kind::kTally, .high = most, .next = {next}});
}

std::int32_t GrammarBuilder::guard(std::int32_t low, std::int32_t high, std::int32_t next) {
  return add({.kind = GrammarNode::Kind::kGuard, .low = low, .high = high, .next = {next}});
}

std::int32_t GrammarBuilder::any_value() {
  if (any_value_ >= 0) return any_value_;
  any_value_ = fork({});
  const std::int32_t scalar = lexeme(JsonLexemes::shared().scalar, end_of_rule());
  const std::int32_t object = any_object(end_of_rule());
  set_fork(any_value_, {scalar, object, any_array(end_of_rule())});
  return any_value_;
}

std::int32_t GrammarBuilder::any_object(std::int32_t next) {
  const JsonLexemes& json = JsonLexemes::shared();
  const std::int32_t after = fork({});
  const std::int32_t value = call(any_value(), after);
  const std::int32_t key = lexeme(json.string, lexeme(json.colon, value));
  set_fork(after, {lexeme(json.close_object, next), lexeme(json.comma, key)});
  return lexeme(json.open_object, fork({lexeme(json.close_empty_object, next), key}));
}

std::int32_t GrammarBuilder::any_array(std::int32_t next) {
  const JsonLexemes& json = JsonLexemes::shared();
  const std::int32_t after = fork({});
  const std::int32_t item = call(any_value(), after);
  set_fork(after, {lexeme(json.close_array, next), lexeme(json.comma, item)});
  return lexeme(json.open_array, fork({lexeme(json.close_empty_array, next), item}));
}

std::shared_ptr<const Grammar> GrammarBuilder::finish(std::int32_t root) {
  made_->root_ = root;
  check_progress();
  measure_depths();
  if (made_->least_depth(made_->root_) > Grammar::kMostDepth) {
    throw Error(ErrorCode::kInvalidArgument, "no document satisfies '" + where_ + "'",
                "a required part is impossible, requires itself without end, or lies more than " +
                    std::to_string(Grammar::kMostDepth) + " levels deep",
                where_);
  }
  return std::move(made_);
}

// The nodes that a node leads to without reading a byte.
std::vector<std::int32_t> GrammarBuilder::silent_steps(std::int32_t index) const {
  const GrammarNode& node = made_->node(index);
  if (node.kind == GrammarNode::Kind::kCall) return {node.callee};  // a value has at least one byte
  if (node.kind == GrammarNode::Kind::kLexeme && !made_->lexeme(node.lexeme).accepts(0)) return {};
  return node.next;
}

// Depth-first search for a cycle that reads no byte. Not recursive, since a client decides how long the paths are.
void GrammarBuilder::check_progress() const {
  enum class Mark : std::uint8_t { kUnseen, kOpen, kDone };
  std::vector<Mark> marks(made_->nodes_.size());
  std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>> way;
  const auto open = [&](std::int32_t index) {
    marks[static_cast<std::size_t>(index)] = Mark::kOpen;
    way.emplace_back(index, silent_steps(index));
  };
  for (std::size_t start = 0; start < marks.size(); ++start) {
    if (marks[start] == Mark::kUnseen) open(static_cast<std::int32_t>(start));
    while (!way.empty()) {
      if (way.back().second.empty()) {
        marks[static_cast<std::size_t>(way.back().first)] = Mark::kDone;
        way.pop_back();
        continue;
      }
      const std::int32_t next = way.back().second.back();
      way.back().second.pop_back();
      const Mark mark = marks[static_cast<std::size_t>(next)];
      if (mark == Mark::kOpen) {
        throw Error(ErrorCode::kInvalidArgument, "'" + where_ + "' has a $ref that leads back to itself", {}, where_);
      }
      if (mark == Mark::kUnseen) open(next);
    }
  }
}

// Every value is that of an existing derivation, so stopping early can only refuse too much.
void GrammarBuilder::measure_depths() {
  constexpr int kMostPasses = 4 * Grammar::kMostDepth;
  auto& depths = made_->least_depth_;
  depths.assign(made_->nodes_.size(), kNever);
  bool changed = true;
  for (int pass = 0; pass < kMostPasses && changed; ++pass) {
    changed = false;
    for (std::size_t i = 0; i < depths.size(); ++i) {
      const std::int32_t found = depth_through(made_->nodes_[i]);
      changed = changed || found < depths[i];
      depths[i] = std::min(depths[i], found);
    }
  }
}

std::int32_t GrammarBuilder::depth_through(const GrammarNode& node) const {
  const auto depth = [&](std::int32_t index) { return made_->least_depth(index); };
  switch (node.kind) {
    case GrammarNode::Kind::kReturn:
      return 0;
    case GrammarNode::Kind::kFork: {
      std::int32_t least = kNever;
      for (const std::int32_t next : node.next) least = std::min(least, depth(next));
      return least;
    }
    case GrammarNode::Kind::kCall:
      return std::max(std::min(depth(node.callee) + 1, kNever), depth(node.next[0]));
    default:
      return depth(node.next[0]);
  }
}

std::shared_ptr<const Grammar> json_object_grammar() {
  static const std::shared_ptr<const Grammar> made = [] {
    GrammarBuilder builder("response_format");
    const std::int32_t root = builder.any_object(builder.end_of_rule());
    return builder.finish(root);
  }();
  return made;
}

}  // namespace slip
