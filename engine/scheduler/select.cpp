// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/select.h"

#include <algorithm>
#include <array>
#include <utility>

namespace slip {
namespace {

// By the node before them, 0: the root.
struct Place {
  double left = 1;    // P(it is reached, and the choices so far are wrong)
  double tokens = 1;  // of the node before it, or of its latest choice that is listed
  double first_log_q = 0;
  std::int32_t n_choices = 0;
};

void list(const Proposal& proposal, std::size_t sequence, const NodeOdds& odds, bool chain_too,
          std::vector<ProposedNode>& nodes) {
  const auto n_chain = static_cast<std::size_t>(proposal.chain_length());
  const bool may_look =
      proposal.draw_method != DrawMethod::kSampled || (odds.rates != nullptr && odds.rates->is_by_rank());
  std::array<Place, kMaxProposalNodes + 1> places{};
  for (std::size_t node = 0; node < proposal.size(); ++node) {
    Place& place = places[static_cast<std::size_t>(proposal.parents[node] + 1)];
    const std::int32_t rank = place.n_choices++;
    if (rank == 0) place.first_log_q = proposal.log_q(node);
    const double blind = node == 0 ? odds.alpha : odds.alpha_deeper;
    const double right = odds.rates != nullptr ? odds.rates->rate(place.first_log_q, rank) : blind;
    const bool in_chain = node < n_chain, is_listed = !in_chain || chain_too;
    const double tokens = std::min(place.tokens, place.left * (rank == 0 && is_listed && !may_look ? blind : right));
    places[node + 1] = {.left = place.left * right, .tokens = tokens};
    place.left *= 1 - right;
    if (!is_listed) continue;
    place.tokens = tokens;  // so that no sibling comes before an earlier one
    nodes.push_back({sequence, static_cast<std::int32_t>(node), tokens});
  }
}

}  // namespace

void list_siblings(const Proposal& proposal, std::size_t sequence, const NodeOdds& odds,
                   std::vector<ProposedNode>& nodes) {
  list(proposal, sequence, odds, /*chain_too=*/false, nodes);
}

void list_nodes(const Proposal& proposal, std::size_t sequence, const NodeOdds& odds,
                std::vector<ProposedNode>& nodes) {
  list(proposal, sequence, odds, /*chain_too=*/true, nodes);
}

void limit_nodes(std::vector<ProposedNode>& nodes, std::span<std::int32_t> most) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::int32_t& left = most[nodes[i].sequence];
    if (left <= 0) continue;
    --left;
    nodes[n++] = nodes[i];
  }
  nodes.resize(n);
}

std::size_t count_paying(std::span<const ProposedNode> siblings, const StepPrice& price, std::int32_t rows,
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

void keep_nodes(Proposal& proposal, std::span<const std::int32_t> kept) {
  std::size_t to = 0;
  for (const std::int32_t node : kept) {
    const auto from = static_cast<std::size_t>(node);
    const std::int32_t parent = proposal.parents[from];
    proposal.tokens[to] = proposal.tokens[from];
    proposal.parents[to] =
        parent < 0 ? -1 : static_cast<std::int32_t>(std::lower_bound(kept.begin(), kept.end(), parent) - kept.begin());
    proposal.path_logprob[to] = proposal.path_logprob[from];
    proposal.proposed_by[to] = proposal.proposed_by[from];
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
  proposal.proposed_by.resize(n);
  while (proposal.q.size() > n) proposal.drop_last_q();
  if (!proposal.device_q.empty()) proposal.device_q.resize(n);
}

}  // namespace slip
