// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/acceptance.h"

#include <algorithm>

#include "common/error.h"
#include "common/thread_memory.h"

namespace slip {

namespace {

constexpr std::int32_t kRoot = -1;

RandomAddress at_depth(const RandomAddress& first, std::size_t depth) {
  RandomAddress address = first;
  address.output_index += static_cast<std::uint32_t>(depth);
  return address;
}

// norm(max(0, r − q)), both supports ascending; `out` is neither of the two.
void residual_after(const Distribution& r, const Distribution& q, Distribution& out) {
  out.ids.clear();
  out.probabilities.clear();
  double total = 0;
  std::size_t j = 0;
  for (std::size_t i = 0; i < r.ids.size(); ++i) {
    while (j < q.ids.size() && q.ids[j] < r.ids[i]) ++j;
    const double taken = j < q.ids.size() && q.ids[j] == r.ids[i] ? q.probabilities[j] : 0;
    const double left = r.probabilities[i] - taken;
    if (!(left > 0)) continue;
    out.ids.push_back(r.ids[i]);
    out.probabilities.push_back(left);
    total += left;
  }
  // r = q up to rounding: a rejection then has probability 2^−53, and the token is drawn from r itself.
  if (out.ids.empty()) {
    out = r;
  } else {
    for (double& probability : out.probabilities) probability /= total;
  }
}

// The residual distributions after successive rejections, in reused memory.
struct Residuals {
  Distribution distributions[2];
  Distribution one_hot;
  int next = 0;

  const Distribution& after(const Distribution& r, const Distribution& q) {
    Distribution& out = distributions[next];
    next = 1 - next;
    residual_after(r, q, out);
    return out;
  }
  const Distribution& after(const Distribution& r, std::int32_t token) {
    one_hot.ids.assign(1, token);
    one_hot.probabilities.assign(1, 1.0);
    return after(r, one_hot);
  }
};

// The result at one node: a child was accepted, or the target adds its own token.
struct NodeResult {
  std::int32_t child = kRoot;  // the accepted child, or kRoot
  std::int32_t token = -1;     // the target's own token, when no child was accepted
  bool had_children = false;
};

// Tests siblings in index order, each against the residual of p after the rejections before it. This gives distribution
// p if each sibling's q is the distribution it was drawn from given its earlier siblings: drawing with replacement
// (equal q) and without (q with their tokens removed) both qualify.
NodeResult verify_by_rejection(const Proposal& proposal, const Distribution& p, std::int32_t node,
                               const RandomAddress& address) {
  NodeResult at_node;
  const Distribution* r = &p;
  auto& residuals = thread_scratch<Residuals, struct OfOneNode>();
  // Siblings may have the same token, so their random numbers are addressed by rank.
  std::uint32_t rank = 0;
  for (std::size_t i = static_cast<std::size_t>(node + 1); i < proposal.size(); ++i) {
    if (proposal.parents[i] != node) continue;
    at_node.had_children = true;
    const std::int32_t token = proposal.tokens[i];
    const bool deterministic = proposal.draw_method == DrawMethod::kDeterministic;
    const double q = deterministic ? 1.0 : proposal.q[i].probability(token);
    SLIP_CHECK(q > 0, "a proposed token was not drawn from the q stored with it");
    if (survives(uniform(address, RandomPurpose::kAccept, rank++), r->probability(token), q)) {
      at_node.child = static_cast<std::int32_t>(i);
      return at_node;
    }
    r = deterministic ? &residuals.after(*r, token) : &residuals.after(*r, proposal.q[i]);
  }
  at_node.token = sample_inverse_cdf(*r, uniform(address, RandomPurpose::kResidual));
  return at_node;
}

NodeResult verify_coupled(const Proposal& proposal, const Distribution& p, std::int32_t node,
                          const RandomAddress& address) {
  NodeResult at_node;
  at_node.token = sample_gumbel(p, address);
  for (std::size_t i = static_cast<std::size_t>(node + 1); i < proposal.size(); ++i) {
    if (proposal.parents[i] != node) continue;
    at_node.had_children = true;
    if (proposal.tokens[i] == at_node.token) {
      at_node.child = static_cast<std::int32_t>(i);
      return at_node;
    }
  }
  return at_node;
}

void check_shapes(const Proposal& proposal, AcceptanceRule rule) {
  const std::size_t n = proposal.size();
  SLIP_CHECK(proposal.parents.size() == n, "one parent a node");
  for (std::size_t i = 0; i < n; ++i) {
    SLIP_CHECK(proposal.parents[i] >= kRoot && proposal.parents[i] < static_cast<std::int32_t>(i),
               "nodes come after their parents");
  }
  if (rule == AcceptanceRule::kCoupled) return;
  SLIP_CHECK(proposal.draw_method != DrawMethod::kGumbel,
             "Gumbel proposals share the target's noise: verify them coupled");
  SLIP_CHECK(proposal.draw_method == DrawMethod::kDeterministic || proposal.q.size() == n,
             "sampled tokens come with their q");
}

}  // namespace

void accept(const Proposal& proposal, const TargetDistribution& p_after, AcceptanceRule rule,
            const RandomAddress& first, VerifyResult& result) {
  check_shapes(proposal, rule);
  const auto verify = rule == AcceptanceRule::kCoupled ? verify_coupled : verify_by_rejection;
  result.accepted.clear();
  result.accepted.reserve(proposal.size());
  std::int32_t node = kRoot;
  while (true) {
    const RandomAddress address = at_depth(first, result.accepted.size());
    NodeResult at_node;
    try {
      at_node = verify(proposal, p_after(node), node, address);
    } catch (...) {
      if (node == kRoot) throw;
      return end_with_accepted(proposal, result);
    }
    if (at_node.child == kRoot) {
      result.added_token = at_node.token;
      result.rejected_one = at_node.had_children;
      return;
    }
    node = at_node.child;
    result.accepted.push_back(node);
  }
}

void end_with_accepted(const Proposal& proposal, VerifyResult& result) {
  SLIP_CHECK(!result.accepted.empty(), "no node is accepted");
  const std::int32_t last = result.accepted.back();
  result.accepted.pop_back();
  result.added_token = proposal.tokens[static_cast<std::size_t>(last)];
  result.rejected_one = proposal.rank_of(last) > 0;  // the choices before it
}

}  // namespace slip
