// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculative/choice_rates.h"
#include "engine/speculative/proposal.h"

namespace slip {

// Other choices for one place than the first, the best first.
struct Siblings {
  std::int32_t n = 0;
  std::array<std::int32_t, kMaxTreeWidth - 1> tokens{};
  std::int32_t guess = -1;  // prompt lookup's guess for the place, unless the draft's best token is the same; −1: none
  void add(std::int32_t token) { tokens[static_cast<std::size_t>(n++)] = token; }
};

// The branches off one sequence's chain while its proposal grows: siblings, and the draft's continuations of them. A
// node's worth is P(it is accepted), at most that of its parent and of its earlier siblings. The best nodes are kept,
// in the order of their worth. So each parent comes before its children, and no node's own draw decides whether a
// sampled one is kept. Threads: one owner.
class Branches {
 public:
  struct Node {
    std::int32_t token = 0;
    std::int32_t parent = -1;  // a node of the chain, −1: the root; from kFirst on: kFirst + an index of nodes()
    std::int32_t depth = 0, rank = 0;
    double log_q = 0;               // of a first choice, given what it follows
    double reached = 0, worth = 0;  // 0 without rates
    // Bit i: the draft's slot for node i of the chain, or for the row read as number i − kFirst. The ancestors that the
    // draft has read, and the node itself once it is read; 0: not read.
    std::uint64_t seen = 0;
    std::int32_t row = -1;  // number of the draft's row that reads it; −1: none
  };
  static constexpr std::int32_t kFirst = kMaxProposalNodes;
  static constexpr std::int32_t kMostRead = kMaxProposalNodes;  // rows of one proposal

  // Begins with the siblings of a chain's tokens; `rates` null: nothing is known of their worth.
  void begin(const Proposal& chain, std::span<const Siblings> siblings, const ChoiceRates* rates);
  // The index of the best node whose children could be proposed within `max_depth` tokens; −1: none. The draft has read
  // the first `n_chain_read` tokens of the chain.
  std::int32_t best_unread(std::int32_t max_depth, std::int32_t n_chain_read) const;
  // Marks a node as read next. REQUIRES: n_read() < kMostRead.
  void read(std::int32_t index);
  std::int32_t n_read() const { return n_read_; }
  // The distribution that the children of a read node are drawn from: memory for the caller, empty after read().
  Distribution& drawn_below(std::int32_t index) { return drawn_from_[static_cast<std::size_t>(node(index).row)]; }
  // Adds the children of a node that the draft has read: its first choice, and that one's siblings, in adjacent nodes.
  // REQUIRES: rates.
  void add_children(std::int32_t index, std::int32_t token, double log_q, const Siblings& siblings);
  // Appends the tokens from the root to a node to `out`.
  void append_path(const Proposal& chain, std::int32_t index, std::vector<std::int32_t>& out) const;
  // The indices of the best nodes, as many as fit after the chain, each after its parent.
  std::span<const std::int32_t> best();
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(std::int32_t index) const { return nodes_[static_cast<std::size_t>(index)]; }

 private:
  struct Above {
    double reached = 1, worth = 1;
    std::int32_t depth = -1;
  };
  Above above(std::int32_t parent) const;
  void add_siblings(std::int32_t parent, double first_log_q, double earlier_worth, const Siblings& siblings);

  const ChoiceRates* rates_ = nullptr;
  std::int32_t n_chain_ = 0, n_read_ = 0;
  std::array<double, kMaxProposalNodes> chain_reached_{};
  std::vector<Node> nodes_;
  std::vector<std::int32_t> order_;
  std::vector<Distribution> drawn_from_;  // by row; kept for its memory
};

}  // namespace slip
