// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/speculation_policy.h"

namespace slip {

// What a sequence may propose as a tree of the likeliest nodes by rank.
struct TreeOutlook {
  RankRates rates{};                       // of its choices for a place
  double deeper = 0;                       // the first choice's rate below the first place
  std::int32_t most_depth = 0, width = 1;  // maximum tokens of a path, and maximum choices for one place
  bool guessed = false;                    // guesses, which need no draft pass
};

// The shape of a sequence's tree: its `nodes` likeliest nodes by rank.
struct StaticShape {
  std::int32_t nodes = 0, depth = 0, width = 0;
  double least = 0;  // P(its least likely node is accepted)
  bool operator==(const StaticShape&) const = default;
};

// The draft passes of trees: one for each place of the longest chain, then those that read siblings to continue them.
struct TreePasses {
  std::int32_t depth = 0, levels = 0, n_read = 0;  // levels: maximum siblings read on one path; n_read: of all trees
  std::int32_t count() const;
};

// Chooses the shapes that maximize the goodput of a step that also reads `prompt_rows` rows of prompts: SmartSpec's
// goodput for trees (arXiv 2406.14066, section on Medusa), with its formula corrected. The expected tokens of a tree
// are l = 1 + Σ P(node is accepted). For a full tree with k_j choices at depth j, that is 1 + Σ_i ∏_{j≤i} P(k_j), where
// P(k) is the probability that one of the first k choices is right. For each limit of the depth, with and without what
// follows siblings, nodes are added in descending order of their probability. The number of nodes with the best goodput
// is kept; 0 is always a candidate. It keeps its memory. Pure but for that. Threads: one owner.
class StaticShapeChooser {
 public:
  // `shapes` gets one entry for each outlook. Cost: O(k n log n) for trees of n nodes together, at most k deep.
  LengthChoice choose(std::span<const TreeOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                      std::vector<StaticShape>& shapes);

 private:
  // A node that may be added. Those with the most expected tokens come first, then the first sequence's.
  struct Node {
    double tokens = 0;  // P(it is accepted), at most that of its parent and of its earlier siblings
    double left = 0;    // P(its place is reached, and the choices before it are wrong)
    std::size_t sequence = 0;
    std::int32_t depth = 0, rank = 0;
    std::int32_t level = 0;  // siblings on its path that the draft reads, or what follows them
    bool on_chain = true;
    bool operator<(const Node& other) const {
      return tokens != other.tokens ? tokens < other.tokens : sequence > other.sequence;
    }
  };
  struct Limits {
    std::int32_t depth = 0;  // of what a draft proposes
    bool continues = false;  // siblings
  };
  struct Best {
    double goodput = 0, tokens = 0, step_us = 0;
    std::size_t n_nodes = 0;
  };
  Best grow(std::span<const TreeOutlook> outlooks, std::int32_t prompt_rows, Limits limits, const StepCurve& curve);
  void add_next(const Node& node, const TreeOutlook& outlook, Limits limits);
  void push(Node node, double rate);
  void take_shapes(std::size_t n_nodes, std::vector<StaticShape>& shapes) const;

  std::vector<Node> open_;           // a heap
  std::vector<Node> added_;          // in descending order
  std::vector<std::int32_t> sizes_;  // by sequence
};

// Static trees, as of Medusa's heads: the shape of a step's tree is known before anything is drafted, and no token that
// was drafted changes it. So the draft of a sampled proposal may continue siblings, too. The measured rates of a
// draft's choices by their rank decide, never the probabilities that it gave them. Targets are ignored. For comparison.
class StaticTreePolicy final : public SpeculationPolicy {
 public:
  explicit StaticTreePolicy(PolicyOptions options) : options_(options) {}

  void choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
              std::vector<DraftOrder>& orders) override;
  bool selects_chains() const override { return true; }
  void select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) override;

 private:
  DraftOrder order_of(const DraftOutlook& outlook, std::size_t at) const;

  PolicyOptions options_;
  StaticShapeChooser chooser_;
  // Of this step, by outlook.
  std::vector<TreeOutlook> trees_;
  std::vector<StaticShape> shapes_;
  std::vector<ChoiceRates> rates_;
  std::vector<StaticShape> shape_of_;  // by running sequence
};

}  // namespace slip
