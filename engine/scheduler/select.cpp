// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/select.h"

#include <algorithm>
#include <array>
#include <utility>

namespace slip {
void list_siblings(const Proposal& proposal, std::size_t sequence, const ChoiceRates& rates,
                   std::vector<Sibling>& siblings) {
  const auto n_chain = static_cast<std::size_t>(proposal.chain_length());
  struct Place {
    double left = 0;    // P(it is reached, and the choices so far are wrong)
    double tokens = 1;  // of its latest sibling
  };
  std::array<Place, kMaxProposalNodes> places{};
  double reached = 1;
  for (std::size_t i = 0; i < n_chain; ++i) {
    const double right = rates.rate(proposal.log_q(i), 0);
    places[i].left = reached * (1 - right);
    reached *= right;
  }
  for (std::size_t node = n_chain; node < proposal.size(); ++node) {
    const auto at = static_cast<std::size_t>(proposal.parents[node] + 1);
    Place& place = places[at];
    const double right = rates.rate(proposal.log_q(at), proposal.rank_of(static_cast<std::int32_t>(node)));
    place.tokens = std::min(place.tokens, place.left * right);  // so that no sibling comes before its elders
    place.left *= 1 - right;
    siblings.push_back({sequence, static_cast<std::int32_t>(node), place.tokens});
  }
}

double StepPrice::least_row_us(std::int32_t rows) const {
  double least = curve.pass_us(rows + 1) - curve.pass_us(rows);
  for (std::int32_t n = 2; n <= 8; ++n) least = std::min(least, (curve.pass_us(rows + n) - curve.pass_us(rows)) / n);
  return least;
}

double StepPrice::row_us(std::int32_t rows) const {
  const std::int32_t from = std::max(1, rows - 4), to = rows + 4;
  return (curve.pass_us(to) - curve.pass_us(from)) / (to - from);
}

std::size_t count_paying(std::span<const Sibling> siblings, const StepPrice& price, std::int32_t rows,
                         std::int32_t room) {
  const auto most = std::min(siblings.size(), static_cast<std::size_t>(std::max(room, 0)));
  double tokens = 0, best_gain = 0;
  std::size_t best = 0;
  for (std::size_t n = 1; n <= most; ++n) {
    tokens += siblings[n - 1].tokens;
    const double more_us = price.curve.pass_us(rows + static_cast<std::int32_t>(n)) - price.curve.pass_us(rows);
    const double gain = tokens - price.goodput * more_us;
    if (gain > best_gain) best_gain = gain, best = n;
  }
  return best;
}

void keep_siblings(Proposal& proposal, std::span<const std::int32_t> kept) {
  auto to = static_cast<std::size_t>(proposal.chain_length());
  for (const std::int32_t node : kept) {
    const auto from = static_cast<std::size_t>(node);
    proposal.tokens[to] = proposal.tokens[from];
    proposal.parents[to] = proposal.parents[from];
    proposal.path_logprob[to] = proposal.path_logprob[from];
    if (!proposal.q.empty()) std::swap(proposal.q[to], proposal.q[from]);
    ++to;
  }
  select_nodes(proposal, static_cast<std::int32_t>(to));
}

void select_nodes(Proposal& proposal, std::int32_t max_nodes) {
  const auto n = static_cast<std::size_t>(std::max(max_nodes, 0));
  if (proposal.size() <= n) return;
  proposal.tokens.resize(n);
  proposal.parents.resize(n);
  proposal.path_logprob.resize(n);
  while (proposal.q.size() > n) proposal.drop_last_q();
  if (!proposal.device_q.empty()) proposal.device_q.resize(n);
}

}  // namespace slip
