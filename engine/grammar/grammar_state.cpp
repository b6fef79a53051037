// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar_state.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace slip {

namespace {

using Calls = std::shared_ptr<const GrammarFrame>;

bool same_calls(const GrammarFrame* a, const GrammarFrame* b) {
  for (; a != b; a = a->below.get(), b = b->below.get()) {
    if (a == nullptr || b == nullptr) return false;
    if (a->return_to != b->return_to || a->count != b->count || a->depth != b->depth) return false;
  }
  return true;
}

bool same(const GrammarThread& a, const GrammarThread& b) {
  return a.node == b.node && a.state == b.state && a.count == b.count && same_calls(a.calls.get(), b.calls.get());
}

void append(std::string& out, std::int32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

// Follows a node to all lexemes that may come next.
class GrammarState::Entering {
 public:
  Entering(const Grammar& grammar, GrammarState& out) : grammar_(grammar), out_(out) {}

  // Follows the last alternative in a loop, so that long lists of alternatives need no deep stack.
  void enter(std::int32_t index, std::int32_t count, Calls calls) {
    while (true) {
      const std::int32_t depth = calls == nullptr ? 0 : calls->depth;
      if (depth + grammar_.least_depth(index) > Grammar::kMostDepth) return;
      if (++n_visited_ > kMostVisits) refuse();
      const GrammarNode& node = grammar_.node(index);
      switch (node.kind) {
        case GrammarNode::Kind::kLexeme:
          add({index, 0, count, std::move(calls)});
          return;
        case GrammarNode::Kind::kFork:
          for (std::size_t i = 0; i + 1 < node.next.size(); ++i) enter(node.next[i], count, calls);
          index = node.next.back();  // not empty: least_depth() of an empty fork is over the limit
          break;
        case GrammarNode::Kind::kCall:
          calls = std::make_shared<GrammarFrame>(GrammarFrame{node.next[0], count, depth + 1, std::move(calls)});
          index = node.callee;
          count = 0;
          break;
        case GrammarNode::Kind::kReturn:
          if (calls == nullptr) {
            out_.complete_ = true;
            return;
          }
          index = calls->return_to;
          count = calls->count;
          calls = Calls(calls->below);
          break;
        case GrammarNode::Kind::kTally:
          count = std::min(count + 1, node.high);
          index = node.next[0];
          break;
        case GrammarNode::Kind::kGuard:
          if (count < node.low || count > node.high) return;
          index = node.next[0];
          break;
      }
    }
  }

  // Adds a thread inside its lexeme and, if the lexeme may end here, what follows it.
  void add(const GrammarThread& thread) {
    const GrammarNode& node = grammar_.node(thread.node);
    const ByteAutomaton& lexeme = grammar_.lexeme(node.lexeme);
    if (lexeme.goes_on(thread.state)) {
      const auto is_same = [&](const GrammarThread& other) { return same(other, thread); };
      if (std::any_of(out_.threads_.begin(), out_.threads_.end(), is_same)) return;
      if (out_.threads_.size() == kMostThreads) refuse();
      out_.threads_.push_back(thread);
    }
    if (lexeme.accepts(thread.state)) enter(node.next[0], thread.count, thread.calls);
  }

 private:
  // Limits the visits too: many paths may be followed before they turn out to be the same thread.
  static constexpr std::size_t kMostVisits = 16 * kMostThreads;

  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kInvalidArgument, "an answer to this schema can be parsed in too many ways",
                "give alternatives that differ in their first property, and fewer optional properties",
                "response_format");
  }

  const Grammar& grammar_;
  GrammarState& out_;
  std::size_t n_visited_ = 0;
};

GrammarState GrammarState::start(const Grammar& grammar) {
  GrammarState state;
  Entering(grammar, state).enter(grammar.root(), 0, nullptr);
  return state;
}

GrammarState GrammarState::after(const Grammar& grammar, const GrammarThread& thread) {
  GrammarState state;
  Entering(grammar, state).enter(grammar.node(thread.node).next[0], thread.count, thread.calls);
  return state;
}

void GrammarState::step(const Grammar& grammar, std::uint8_t byte, GrammarState& out) const {
  out.threads_.clear();
  out.complete_ = false;
  Entering entering(grammar, out);
  for (const GrammarThread& thread : threads_) {
    const ByteAutomaton& lexeme = grammar.lexeme(grammar.node(thread.node).lexeme);
    const std::int32_t state = lexeme.step(thread.state, byte);
    if (state != ByteAutomaton::kDead) entering.add({thread.node, state, thread.count, thread.calls});
  }
}

bool GrammarState::advance(const Grammar& grammar, std::string_view bytes) {
  GrammarState next;
  for (const char byte : bytes) {
    step(grammar, static_cast<std::uint8_t>(byte), next);
    std::swap(*this, next);
    if (!is_alive()) break;
  }
  return is_alive();
}

void GrammarState::append_key(std::string& out) const {
  append(out, complete_ ? 1 : 0);
  for (const GrammarThread& thread : threads_) {
    append(out, thread.node);
    append(out, thread.state);
    append(out, thread.count);
    append(out, thread.calls == nullptr ? 0 : thread.calls->depth);
    for (const GrammarFrame* frame = thread.calls.get(); frame != nullptr; frame = frame->below.get()) {
      append(out, frame->return_to);
      append(out, frame->count);
    }
  }
}

}  // namespace slip
