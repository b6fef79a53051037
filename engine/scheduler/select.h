// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "engine/scheduler/step_curve.h"
#include "engine/speculative/choice_rates.h"
#include "engine/speculative/proposal.h"

namespace slip {

// A node of a proposal, and the tokens that it is expected to add.
struct ProposedNode {
  std::size_t sequence = 0;
  std::int32_t node = 0;
  double tokens = 0;
  // Better nodes first; among equals the first sequence's, then the earlier node.
  bool operator<(const ProposedNode& other) const {
    return std::tie(other.tokens, sequence, node) < std::tie(tokens, other.sequence, other.node);
  }
};

// How likely the tokens of a proposal are.
struct NodeOdds {
  const ChoiceRates* rates = nullptr;  // null: not known
  // P(a chain's first token is accepted), and of a later one given that those before it are: for a token whose own
  // probability is not known, or may not be looked at since it was drawn from the draft. Rates by rank look at none.
  double alpha = 0, alpha_deeper = 0;
};

// Appends the nodes that follow a proposal's chain. A node's expected tokens are P(its parent is accepted) · P(the
// choices before it are wrong) · P(it is right), at most those of its parent and of its earlier siblings outside of the
// chain. Pure.
void list_siblings(const Proposal& proposal, std::size_t sequence, const NodeOdds& odds,
                   std::vector<ProposedNode>& nodes);
// Appends all nodes, each with at most the expected tokens of its earlier siblings and of its parent. Pure.
void list_nodes(const Proposal& proposal, std::size_t sequence, const NodeOdds& odds, std::vector<ProposedNode>& nodes);

// Keeps the first `most[sequence]` nodes of each sequence, and leaves in `most` what is not used up. The order of the
// nodes alone decides. With them sorted, the parent and the earlier siblings of a kept node are kept, and no sampled
// node is dropped for its own token. Pure.
void limit_nodes(std::vector<ProposedNode>& nodes, std::span<std::int32_t> most);

// The price of a token: the best goodput without siblings in tokens per µs, and the step that reaches it.
struct StepPrice {
  double goodput = 0;
  StepCurve curve;
};

// How many of the siblings, sorted by descending tokens, make a step of `rows` rows better: the n with the greatest
// Σ tokens − goodput · (T(rows + n) − T(rows)), at most `room`. Pure.
std::size_t count_paying(std::span<const ProposedNode> siblings, const StepPrice& price, std::int32_t rows,
                         std::int32_t room);

// Removes the nodes that are not in `kept`, ascending. REQUIRES: a kept node's parent is kept. Pure.
void keep_nodes(Proposal& proposal, std::span<const std::int32_t> kept);

// Prunes a proposal to its first `max_nodes` nodes. The choice depends only on the nodes' order, never on the drawn
// tokens, since that would bias the rejection rule. Parents precede children, so the rest is a tree again. Does nothing
// to a proposal within the limit. Pure.
void select_nodes(Proposal& proposal, std::int32_t max_nodes);

}  // namespace slip
