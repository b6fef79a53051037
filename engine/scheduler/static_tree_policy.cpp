// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/static_tree_policy.h"

#include <algorithm>

#include "engine/speculative/draft_runner.h"

namespace slip {
namespace {

// The expected tokens of one node may be computed in another order, and so differ in their last bits.
constexpr double kRounding = 1 - 1e-9;

// Limits each rate so that no choice is likelier to be accepted than the one before it. A tree of the likeliest nodes
// then has no choice without those before it.
RankRates descending(RankRates rates) {
  for (std::size_t rank = 1; rank < rates.size(); ++rank) {
    const double before = rates[rank - 1];
    if (before < 1) rates[rank] = std::min(rates[rank], before / (1 - before));
  }
  return rates;
}

TreeOutlook tree_outlook(const DraftOutlook& outlook, std::int32_t most_width) {
  if (outlook.most == 0) {
    const DraftOutlook::Guesses& guesses = outlook.guesses;
    return {{guesses.alpha}, guesses.alpha_deeper, guesses.most, 1, /*guessed=*/true};
  }
  if (outlook.rates == nullptr) return {{outlook.alpha}, outlook.deeper(), outlook.most};
  const RankRates rates = descending(outlook.rank_rates);
  return {rates, rates[0], outlook.most, std::min(most_width, outlook.width)};
}

}  // namespace

std::int32_t TreePasses::count() const {
  return depth + std::max(levels, (n_read + kMostBranchRows - 1) / kMostBranchRows);
}

// ---- the shapes ----

void StaticShapeChooser::push(Node node, double rate) {
  node.tokens = std::min(node.tokens, node.left * rate);
  if (node.tokens <= 0) return;
  open_.push_back(node);
  std::push_heap(open_.begin(), open_.end());
}

// The next choice for the place of `node`, and the first choice for the place after it.
void StaticShapeChooser::add_next(const Node& node, const TreeOutlook& outlook, Limits limits) {
  const auto rate_of = [&](std::int32_t depth, std::int32_t rank) {
    return rank == 0 && depth > 0 ? outlook.deeper : outlook.rates[static_cast<std::size_t>(rank)];
  };
  const double rate = rate_of(node.depth, node.rank);
  if (node.rank + 1 < outlook.width) {
    Node next = node;
    next.left *= 1 - rate;
    next.on_chain = false;
    push(next, rate_of(node.depth, ++next.rank));
  }
  const std::int32_t most_depth = outlook.guessed ? outlook.most_depth : std::min(outlook.most_depth, limits.depth);
  if (node.depth + 1 >= most_depth || (!node.on_chain && !limits.continues)) return;
  Node next = node;
  next.left *= rate;
  next.rank = 0;
  next.level += node.on_chain ? 0 : 1;
  push(next, rate_of(++next.depth, 0));
}

StaticShapeChooser::Best StaticShapeChooser::grow(std::span<const TreeOutlook> outlooks, std::int32_t prompt_rows,
                                                  Limits limits, const StepCurve& curve) {
  open_.clear();
  added_.clear();
  sizes_.assign(outlooks.size(), 0);
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    const TreeOutlook& outlook = outlooks[i];
    const bool has_room = outlook.most_depth > 0 && (outlook.guessed || limits.depth > 0);
    if (has_room) push({.tokens = 1, .left = 1, .sequence = i}, outlook.rates[0]);
  }
  const auto n = static_cast<std::int32_t>(outlooks.size());
  double tokens = n;
  TreePasses passes;
  Best best;
  for (bool is_first = true;; is_first = false) {
    const std::int32_t rows = n + prompt_rows + static_cast<std::int32_t>(added_.size());
    const double step_us = curve.pass_us(rows) + curve.drafting.us(passes.count());
    if (is_first || tokens / step_us > best.goodput) best = {tokens / step_us, tokens, step_us, added_.size()};
    if (open_.empty()) return best;
    std::pop_heap(open_.begin(), open_.end());
    const Node node = open_.back();
    open_.pop_back();
    if (sizes_[node.sequence] == kMaxProposalNodes) continue;
    ++sizes_[node.sequence];
    const TreeOutlook& outlook = outlooks[node.sequence];
    added_.push_back(node);
    tokens += node.tokens;
    if (!outlook.guessed) {
      passes.depth = std::max(passes.depth, node.depth + 1);
      passes.levels = std::max(passes.levels, node.level);
      passes.n_read += node.level > 0 && node.rank == 0 ? 1 : 0;
    }
    add_next(node, outlook, limits);
  }
}

void StaticShapeChooser::take_shapes(std::size_t n_nodes, std::vector<StaticShape>& shapes) const {
  std::fill(shapes.begin(), shapes.end(), StaticShape());
  for (const Node& node : std::span(added_).first(n_nodes)) {
    StaticShape& shape = shapes[node.sequence];
    ++shape.nodes;
    shape.depth = std::max(shape.depth, node.depth + 1);
    shape.width = std::max(shape.width, node.rank + 1);
    shape.least = node.tokens;
  }
}

LengthChoice StaticShapeChooser::choose(std::span<const TreeOutlook> outlooks, std::int32_t prompt_rows,
                                        const StepCurve& curve, std::vector<StaticShape>& shapes) {
  shapes.assign(outlooks.size(), {});
  if (outlooks.empty()) return {};
  std::int32_t deepest = 0;
  for (const TreeOutlook& outlook : outlooks)
    deepest = outlook.guessed ? deepest : std::max(deepest, outlook.most_depth);
  Best best, without_pass;
  for (std::int32_t depth = 0; depth <= deepest; ++depth) {
    for (const bool continues : {false, true}) {
      if (continues && depth < 2) continue;  // nothing follows siblings
      const Best found = grow(outlooks, prompt_rows, {depth, continues}, curve);
      if (depth == 0) without_pass = found;
      if (depth > 0 && found.goodput <= best.goodput) continue;
      best = found;
      take_shapes(found.n_nodes, shapes);
    }
  }
  return {best.goodput, best.tokens * without_pass.step_us / without_pass.tokens - best.step_us};
}

// ---- the policy ----

void StaticTreePolicy::choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                              std::vector<DraftOrder>& orders) {
  trees_.clear();
  for (const DraftOutlook& outlook : outlooks) trees_.push_back(tree_outlook(outlook, options_.tree_width));
  const LengthChoice choice = chooser_.choose(trees_, prompt_rows, curve, shapes_);
  orders.assign(outlooks.size(), {});
  shape_of_.clear();
  rates_.clear();
  for (const TreeOutlook& tree : trees_) rates_.emplace_back(tree.rates);
  std::int32_t n_drafted = 0;
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    n_drafted += trees_[i].guessed ? 0 : shapes_[i].nodes;
    // So that the rates stay measured where no draft pays.
    if (outlooks[i].probe && shapes_[i].nodes == 0) shapes_[i] = {1, 1, 1, trees_[i].rates[0]};
    if (shape_of_.size() <= outlooks[i].sequence) shape_of_.resize(outlooks[i].sequence + 1);
    shape_of_[outlooks[i].sequence] = shapes_[i];
    orders[i] = order_of(outlooks[i], i);
  }
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    if (!trees_[i].guessed && n_drafted > 0) orders[i].saved_us = choice.saved_us * shapes_[i].nodes / n_drafted;
  }
}

// The draft reads a node if the first choice after it is in the shape.
DraftOrder StaticTreePolicy::order_of(const DraftOutlook& outlook, std::size_t at) const {
  const StaticShape& shape = shapes_[at];
  DraftOrder order;
  order.length = {shape.depth, trees_[at].guessed};
  order.most = shape.depth;
  if (trees_[at].guessed || outlook.rates == nullptr || shape.nodes == 0) return order;
  order.width = shape.width;
  order.stop = {&rates_[at], rates_[at].rate(0, 0), shape.least * kRounding, /*pass_price=*/0};
  return order;
}

// Nodes that a draft added beyond the shape go; those that it could not propose are not replaced.
void StaticTreePolicy::select(std::vector<ProposedNode>& nodes, std::int32_t /*rows*/, std::int32_t room) {
  std::size_t n = 0;
  for (const ProposedNode& node : nodes) {
    if (static_cast<std::int32_t>(n) >= room) break;
    if (node.sequence >= shape_of_.size()) continue;
    StaticShape& left = shape_of_[node.sequence];
    if (left.nodes <= 0 || node.tokens < left.least * kRounding) continue;
    --left.nodes;
    nodes[n++] = node;
  }
  nodes.resize(n);
}

}  // namespace slip
