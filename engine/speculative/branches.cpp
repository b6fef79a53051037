// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/branches.h"

#include <algorithm>
#include <numeric>

namespace slip {

void Branches::begin(const Proposal& chain, std::span<const Siblings> siblings, const ChoiceRates* rates) {
  nodes_.clear();
  rates_ = rates;
  n_chain_ = static_cast<std::int32_t>(chain.size());
  n_read_ = 0;
  double reached = 1;
  for (std::int32_t place = 0; place < n_chain_; ++place) {
    const double log_q = chain.log_q(static_cast<std::size_t>(place));
    add_siblings(place - 1, log_q, /*earlier_worth=*/1, siblings[static_cast<std::size_t>(place)]);
    if (rates_ != nullptr) reached *= rates_->rate(log_q, 0);
    chain_reached_[static_cast<std::size_t>(place)] = reached;
  }
  // Without rates the second choices of all places come first, then the third ones.
  if (rates_ == nullptr) {
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.rank < b.rank; });
  }
}

Branches::Above Branches::above(std::int32_t parent) const {
  if (parent >= kFirst) {
    const Node& up = node(parent - kFirst);
    return {up.reached, up.worth, up.depth};
  }
  if (parent < 0) return {};
  const double reached = chain_reached_[static_cast<std::size_t>(parent)];  // all of the chain is kept
  return {reached, reached, parent};
}

void Branches::add_siblings(std::int32_t parent, double first_log_q, double earlier_worth, const Siblings& siblings) {
  const Above up = above(parent);
  double left = rates_ != nullptr ? up.reached * (1 - rates_->rate(first_log_q, 0)) : 0;
  double worth = std::min(up.worth, earlier_worth);
  for (std::int32_t n = 0; n < siblings.n; ++n) {
    Node node{
        .token = siblings.tokens[static_cast<std::size_t>(n)], .parent = parent, .depth = up.depth + 1, .rank = n + 1};
    if (rates_ != nullptr) {
      const double right = rates_->rate(first_log_q, node.rank);
      node.reached = left * right;
      node.worth = worth = std::min(worth, node.reached);
      left *= 1 - right;
    }
    nodes_.push_back(node);
  }
}

std::int32_t Branches::best_unread(std::int32_t max_depth, std::int32_t n_chain_read) const {
  std::int32_t best = -1;
  for (std::int32_t i = 0; i < std::ssize(nodes_); ++i) {
    const Node& one = node(i);
    const bool is_open = one.seen == 0 && one.depth + 1 < max_depth &&
                         (one.parent >= kFirst ? node(one.parent - kFirst).seen != 0 : one.parent < n_chain_read);
    if (is_open && (best < 0 || one.worth > node(best).worth)) best = i;
  }
  return best;
}

void Branches::read(std::int32_t index) {
  Node& one = nodes_[static_cast<std::size_t>(index)];
  const std::uint64_t above =
      one.parent >= kFirst ? node(one.parent - kFirst).seen : (std::uint64_t{1} << (one.parent + 1)) - 1;
  one.row = n_read_++;
  one.seen = above | std::uint64_t{1} << (kFirst + one.row);
  if (std::ssize(drawn_from_) < n_read_) drawn_from_.emplace_back();
  drawn_below(index).ids.clear();
  drawn_below(index).probabilities.clear();
}

void Branches::add_children(std::int32_t index, std::int32_t token, double log_q, const Siblings& siblings) {
  const Node up = node(index);
  const double reached = up.reached * rates_->rate(log_q, 0);
  const double worth = std::min(up.worth, reached);
  const std::int32_t parent = kFirst + index;
  nodes_.push_back(
      {.token = token, .parent = parent, .depth = up.depth + 1, .log_q = log_q, .reached = reached, .worth = worth});
  add_siblings(parent, log_q, worth, siblings);
}

void Branches::append_path(const Proposal& chain, std::int32_t index, std::vector<std::int32_t>& out) const {
  const auto end = static_cast<std::ptrdiff_t>(out.size());
  std::int32_t at = kFirst + index;
  for (; at >= kFirst; at = node(at - kFirst).parent) out.push_back(node(at - kFirst).token);
  for (; at >= 0; at = chain.parents[static_cast<std::size_t>(at)]) {
    out.push_back(chain.tokens[static_cast<std::size_t>(at)]);
  }
  std::reverse(out.begin() + end, out.end());
}

std::span<const std::int32_t> Branches::best() {
  order_.resize(nodes_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [this](std::int32_t a, std::int32_t b) {
    return node(a).worth != node(b).worth ? node(a).worth > node(b).worth : a < b;
  });
  const auto room = static_cast<std::size_t>(kMaxProposalNodes - n_chain_);
  return std::span(order_).first(std::min(order_.size(), room));
}

}  // namespace slip
