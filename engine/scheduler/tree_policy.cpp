// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/tree_policy.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace slip {
namespace {

constexpr double kPassRatio = 1.15;  // a pass over the whole budget, relative to one over one row
constexpr std::int32_t kMostDepth = 8;

}  // namespace

TreeShape tree_shape(std::int32_t budget, std::int32_t n, std::int32_t most_width) {
  if (n < 1) return {};
  return {std::clamp((budget + n - 1) / n, 1, kMostDepth), std::clamp(budget / n, 1, most_width)};
}

std::int32_t rows_within(const StepCurve& curve, double ratio) {
  std::int32_t rows = 1;
  while (rows < StepCurve::kRows && curve.pass_us(rows + 1) <= ratio * curve.pass_us(1)) ++rows;
  return rows;
}

double required_tokens(const DeadlineLoad& load, double step_us) {
  return (static_cast<double>(load.since_us) + step_us) / static_cast<double>(load.slo.tpot_us) - load.n_done;
}

void TreePolicy::choose(std::span<const DraftOutlook> outlooks, std::int32_t /*prompt_rows*/, const StepCurve& curve,
                        std::vector<DraftOrder>& orders) {
  const auto n = static_cast<std::int32_t>(outlooks.size());
  const std::int32_t rows = rows_within(curve, kPassRatio);
  orders.assign(outlooks.size(), {});
  budget_.required.clear();
  budget_.most_required = 0;
  budget_.nodes = std::max(0, rows - n);
  budget_.nodes_each = kMaxProposalNodes;
  if (kind_ == PolicyKind::kEqualGreedy && n > 0) budget_.nodes_each = rows / n - 1;
  if (budget_.nodes == 0 || budget_.nodes_each <= 0) return;
  const TreeShape shape = tree_shape(rows, n, options_.tree_width);
  const double plain_us = curve.pass_us(n), step_us = curve.pass_us(rows) + curve.drafting.us(shape.depth);
  budget_.most_required = shape.depth + 1;
  if (kind_ == PolicyKind::kAdaServe) require(outlooks, step_us);
  double tokens = n;
  std::int32_t n_drafted = 0;
  const double pass_price = curve.drafting.pass_us * n / plain_us;
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    const DraftOutlook& outlook = outlooks[i];
    orders[i] = order_of(outlook, shape, pass_price);
    if (orders[i].length.guessed) continue;
    tokens += expected_tokens(orders[i].most, outlook.alpha, outlook.deeper());
    n_drafted += orders[i].most;
  }
  for (DraftOrder& order : orders) {
    if (order.length.guessed || n_drafted == 0) continue;
    order.saved_us = (tokens * plain_us / n - step_us) * order.most / n_drafted;
  }
}

DraftOrder TreePolicy::order_of(const DraftOutlook& outlook, TreeShape shape, double pass_price) const {
  DraftOrder order;
  order.length.guessed = outlook.most == 0;
  order.most = order.length.nodes = std::min(shape.depth, order.length.guessed ? outlook.guesses.most : outlook.most);
  if (order.length.guessed || outlook.rates == nullptr) return order;
  order.wants_probability = true;
  order.width = std::min(shape.width, outlook.width);
  if (options_.stop_early) order.stop = {outlook.rates, outlook.deeper(), /*row_price=*/0, pass_price};
  return order;
}

void TreePolicy::require(std::span<const DraftOutlook> outlooks, double step_us) {
  for (const DraftOutlook& outlook : outlooks) {
    if (!outlook.deadline || outlook.deadline->slo.tpot_us <= 0) continue;
    if (budget_.required.size() <= outlook.sequence) budget_.required.resize(outlook.sequence + 1, 0.0);
    budget_.required[outlook.sequence] = required_tokens(*outlook.deadline, step_us);
  }
}

void TreePolicy::select(std::vector<ProposedNode>& nodes, std::int32_t /*rows*/, std::int32_t room) {
  budget_.nodes = std::clamp(budget_.nodes, 0, std::max(room, 0));
  select_nodes_of_trees(nodes, budget_, selection_);
  std::size_t n = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (selection_.keep[i] != 0) nodes[n++] = nodes[i];
  }
  nodes.resize(n);
}

void select_nodes_of_trees(std::span<const ProposedNode> nodes, const NodeBudget& budget, NodeSelection& selection) {
  selection.keep.assign(nodes.size(), 0);
  std::size_t n_sequences = budget.required.size();
  for (const ProposedNode& node : nodes) n_sequences = std::max(n_sequences, node.sequence + 1);
  selection.tokens.assign(n_sequences, 1.0);  // the target adds one itself
  selection.sizes.assign(n_sequences, 0);
  std::int32_t left = budget.nodes;
  const auto take = [&](std::size_t i) {
    const ProposedNode& node = nodes[i];
    selection.keep[i] = 1;
    selection.tokens[node.sequence] += node.tokens;
    ++selection.sizes[node.sequence];
    --left;
  };
  selection.most_behind.resize(budget.required.size());
  std::iota(selection.most_behind.begin(), selection.most_behind.end(), std::size_t{0});
  // std::stable_sort() would allocate.
  std::sort(selection.most_behind.begin(), selection.most_behind.end(), [&](std::size_t a, std::size_t b) {
    return budget.required[a] != budget.required[b] ? budget.required[a] > budget.required[b] : a < b;
  });
  for (const std::size_t sequence : selection.most_behind) {
    const double required = std::min(budget.required[sequence], budget.most_required);
    for (std::size_t i = 0; i < nodes.size() && left > 0; ++i) {
      if (selection.tokens[sequence] >= required || selection.sizes[sequence] >= budget.nodes_each) break;
      if (nodes[i].sequence == sequence) take(i);
    }
  }
  for (std::size_t i = 0; i < nodes.size() && left > 0; ++i) {
    if (selection.keep[i] == 0 && selection.sizes[nodes[i].sequence] < budget.nodes_each) take(i);
  }
}

}  // namespace slip
