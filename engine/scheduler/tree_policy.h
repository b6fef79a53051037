// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/speculation_policy.h"

namespace slip {

// The depth and width of the trees of `n` sequences, in a step with room for `budget` rows: AdaServe's section 5.2. The
// paper gives no values for its upper limits; here they are a depth of 8 and `most_width`. Pure.
struct TreeShape {
  std::int32_t depth = 1, width = 1;
};
TreeShape tree_shape(std::int32_t budget, std::int32_t n, std::int32_t most_width);

// The rows of a pass that takes at most `ratio` times as long as one row. Pure.
std::int32_t rows_within(const StepCurve& curve, double ratio);

// The tokens that a sequence needs of a step of `step_us` µs to be on time after it: AdaServe's A(r) = (l + t)/τ − o.
// REQUIRES: load.slo.tpot_us > 0. Pure.
double required_tokens(const DeadlineLoad& load, double step_us);

// The budget of nodes to verify in a step. Required nodes are chosen first, then the likeliest of all.
struct NodeBudget {
  std::int32_t nodes = 0;        // of all sequences, without their last committed tokens
  std::int32_t nodes_each = 0;   // of one sequence
  std::vector<double> required;  // expected tokens by sequence; the greatest need is met first; empty: none
  double most_required = 0;      // expected tokens, with the target's own, that one step can bring
};

// The result of select_nodes_of_trees(), and its working memory: it allocates nothing for as many nodes and sequences
// as before.
struct NodeSelection {
  std::vector<std::uint8_t> keep;  // by node: 1: it is verified
  // By sequence: the tokens expected of its tree, the target's own included, and the tree's nodes.
  std::vector<double> tokens;
  std::vector<std::int32_t> sizes;
  std::vector<std::size_t> most_behind;  // sequences in descending order of what they need
};

// Chooses the nodes to verify: those that sequences need for their targets, then the likeliest of all. `nodes` as in
// SpeculationPolicy::select. Pure. Cost: O(sequences · nodes).
void select_nodes_of_trees(std::span<const ProposedNode> nodes, const NodeBudget& budget, NodeSelection& selection);

// Trees of the likeliest nodes within a budget of rows: the most with which a pass takes at most 1.15 times as long as
// with one row. AdaServe's Algorithm 2 with the corrections of its printed form: the budget is never exceeded, and a
// node counts by the probability of its whole path. It differs in three points. A probability is the measured rate at
// which such nodes are accepted, not the draft's own. A draft pass that is not worth its time is left out. A sequence
// whose draft is not ready proposes guesses. kEqualGreedy and kGlobalGreedy, of the paper's ablation, ignore the
// targets.
class TreePolicy final : public SpeculationPolicy {
 public:
  TreePolicy(PolicyKind kind, PolicyOptions options) : kind_(kind), options_(options) {}

  void choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
              std::vector<DraftOrder>& orders) override;
  bool selects_chains() const override { return true; }
  void select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) override;

 private:
  // `pass_price`: tokens that plain decoding would bring in the time of a draft pass.
  DraftOrder order_of(const DraftOutlook& outlook, TreeShape shape, double pass_price) const;
  void require(std::span<const DraftOutlook> outlooks, double step_us);

  PolicyKind kind_;
  PolicyOptions options_;
  NodeBudget budget_;        // of this step
  NodeSelection selection_;  // of this step; kept for its memory
};

}  // namespace slip
