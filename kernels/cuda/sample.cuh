// SPDX-License-Identifier: Apache-2.0
// Sampling of tokens, and both acceptance rules with the semantics of engine/speculative/acceptance.h.
#pragma once

#include "kernels/addressed_random.h"
#include "kernels/cuda/distribution.cuh"

namespace slip::kernels::cuda {

inline constexpr int kShareBits = 62;  // fraction bits of probabilities, which sum to one

// Inverse CDF: the first id (ascending) at which the cumulative share exceeds u; the last id with a share if rounding
// left the sum below u. `total` is the sum of all shares, from an earlier pass.
template <class Share>
SLIP_DEVICE std::int32_t draw_inverse_cdf(const VocabularyBlock& block, std::int32_t vocab, const Share& share,
                                          double u, Mass total, DistributionShared& shared) {
  // u · total, but always less than the total.
  const auto scaled = static_cast<Mass>(u * static_cast<double>(total));
  const Mass target = scaled < total ? scaled : total - 1;
  Mass before = 0;
  for (std::int32_t first = 0;; first += kVocabularyThreads) {
    VocabularyBlock::Per<Mass> own, sum;
    block.each([&](int thread) {
      own[thread] = first + thread < vocab ? share(first + thread) : 0;
      sum[thread] = own[thread];
      if (thread == 0) shared.found = -1;
    });
    const Mass stretch = scan_threads(block, sum, shared);
    if (before + stretch > target) {
      block.each([&](int thread) {
        const Mass reached = before + sum[thread];
        if (reached <= target && reached + own[thread] > target) shared.found = first + thread;
      });
      const std::int32_t found = shared.found;
      block.each([](int) {});
      return found;
    }
    before += stretch;
    if (first + kVocabularyThreads >= vocab) return -1;  // only when all shares are zero
  }
}

// The Gumbel-max draw argmax(log p + g) over some ids, computed as argmin(−log u / p) with the CPU's uniform numbers.
// winner ≥ vocab: no id has any probability.
SLIP_DEVICE RowPart soonest_of(const VocabularyBlock& block, const LogitRow& row, const RowDistribution& distribution,
                               const RandomAddress& address, const IdRange& ids, DistributionShared& shared) {
  VocabularyBlock::Per<double> soonest, own;
  VocabularyBlock::Per<std::int32_t> winner;
  block.each_apart([&](int thread) {
    soonest[thread] = static_cast<double>(infinity());
    winner[thread] = row.vocab;
    for (std::int32_t id = ids.begin + thread; id < ids.end; id += kVocabularyThreads) {
      const double p = probability(row, distribution, id);
      if (!(p > 0)) continue;
      const double u = open_unit_interval(random_bits(address, RandomPurpose::kGumbel, static_cast<std::uint32_t>(id)));
      // 1 − u ≤ −log u rules out most tokens without a logarithm
      if (1 - u > p * soonest[thread] * (1 + 1e-12)) continue;
      const double arrival = -log(u) / p;
      if (arrival < soonest[thread]) {
        soonest[thread] = arrival;
        winner[thread] = id;
      }
    }
    own[thread] = soonest[thread];
  });
  RowPart part;
  part.soonest = block.combine(own, shared.times, Smaller{});
  block.each_apart([&](int thread) { winner[thread] = soonest[thread] == part.soonest ? winner[thread] : row.vocab; });
  part.winner = block.combine(winner, shared.counts, Smaller{});
  return part;
}

// The draw by parts: block (x, y) takes part y of row x. DrawTokens and Accept merge `parts`.
struct GumbelParts {
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  const RowDistribution* distributions = nullptr;  // [n_rows]
  const RandomAddress* addresses = nullptr;        // [n_rows]
  RowPart* parts = nullptr;                        // [n_rows, kRowParts]
};

SLIP_DEVICE void scan_gumbel(const VocabularyBlock& block, const GumbelParts& job, DistributionShared& shared) {
  const RowDistribution distribution = job.distributions[block.x];
  RowPart part;
  part.winner = job.vocab;
  part.soonest = static_cast<double>(infinity());
  if (distribution.state == DistributionState::kFine && distribution.temperature > 0) {
    const LogitRow row{job.logits + block.x * job.stride, job.vocab};
    part = soonest_of(block, row, distribution, job.addresses[block.x], part_of(job.vocab, block.y), shared);
  }
  block.each_apart([&](int thread) {
    if (thread == 0) job.parts[block.x * kRowParts + block.y] = part;
  });
}

// `parts`: the results of scan_gumbel() at this address, or null.
SLIP_DEVICE std::int32_t draw_gumbel(const VocabularyBlock& block, const LogitRow& row,
                                     const RowDistribution& distribution, const RandomAddress& address,
                                     const RowPart* parts, DistributionShared& shared) {
  if (distribution.temperature == 0) return distribution.best;
  if (parts == nullptr) return soonest_of(block, row, distribution, address, {0, row.vocab}, shared).winner;
  RowPart best = parts[0];
  for (int i = 1; i < kRowParts; ++i) {  // ids ascend with the parts, so ties keep the lowest id
    if (parts[i].soonest < best.soonest) best = parts[i];
  }
  return best.winner;
}

// The rule by which a row's token is chosen.
enum class DrawRule : std::int32_t {
  kInverseCdf = 0,
  kCoupled = 1,  // Gumbel-max
  kBest = 2,     // the most likely token, whatever the temperature
};

// Draws one token per row: block x takes row x.
struct DrawTokens {
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  const RowDistribution* distributions = nullptr;  // [n_rows]
  const RandomAddress* addresses = nullptr;        // [n_rows]
  bool coupled = false;                            // by Gumbel-max; else by inverse CDF
  const DrawRule* rules = nullptr;                 // [n_rows]; null: `coupled` decides for all
  const RowPart* parts = nullptr;  // [n_rows, kRowParts] from GumbelParts at these addresses; null: computed here
  RandomPurpose purpose = RandomPurpose::kDraft;  // of the uniform number, when not coupled
  std::int32_t* tokens = nullptr;                 // [n_rows]
  float* logprobs = nullptr;                      // [n_rows] log of the drawn token's probability; null: not wanted
};

struct ShareOfDistribution {
  LogitRow row;
  RowDistribution distribution;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    return to_fixed(probability(row, distribution, id), kShareBits);
  }
};

SLIP_DEVICE void draw_token(const VocabularyBlock& block, const DrawTokens& job, DistributionShared& shared) {
  const LogitRow row{job.logits + block.x * job.stride, job.vocab};
  const RowDistribution distribution = job.distributions[block.x];
  const DrawRule same = job.coupled ? DrawRule::kCoupled : DrawRule::kInverseCdf;
  const DrawRule rule = job.rules == nullptr ? same : job.rules[block.x];
  std::int32_t token = distribution.best;
  if (distribution.state == DistributionState::kFine && distribution.temperature > 0 && rule != DrawRule::kBest) {
    const RandomAddress address = job.addresses[block.x];
    if (rule == DrawRule::kCoupled) {
      const RowPart* parts = job.parts == nullptr ? nullptr : job.parts + block.x * kRowParts;
      token = draw_gumbel(block, row, distribution, address, parts, shared);
    } else {
      const ShareOfDistribution share{row, distribution};
      const Mass total = sum_over(block, job.vocab, share, shared);
      const double u = unit_interval(random_bits(address, job.purpose, 0));
      token = draw_inverse_cdf(block, job.vocab, share, u, total, shared);
    }
  }
  block.each_apart([&](int thread) {
    if (thread != 0) return;
    job.tokens[block.x] = token;
    if (job.logprobs != nullptr) job.logprobs[block.x] = static_cast<float>(log(probability(row, distribution, token)));
  });
}

inline constexpr int kMostNodes = 64;  // of one proposal
// Value of n_nodes: nothing to verify, the row only fills a captured grid
inline constexpr std::int32_t kNoProposal = -1;

// The distribution that a proposed token was drawn from: logits under a RowDistribution or, if `ids` is not null, a
// table of all tokens with any probability.
struct DraftDistribution {
  const float* logits = nullptr;  // [vocab]
  const RowDistribution* distribution = nullptr;
  const std::int32_t* ids = nullptr;      // [n] ascending
  const double* probabilities = nullptr;  // [n]
  std::int32_t n = 0;
};

SLIP_DEVICE double probability(const DraftDistribution& distribution, std::int32_t vocab, std::int32_t id) {
  if (distribution.ids == nullptr) return probability({distribution.logits, vocab}, *distribution.distribution, id);
  std::int32_t begin = 0, end = distribution.n;
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (distribution.ids[middle] == id) return distribution.probabilities[middle];
    if (distribution.ids[middle] < id) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return 0;
}

// One sequence's proposal and the place of its rows. The first of the target's rows follows the last committed token;
// row 1 + i follows node i.
struct ProposalRows {
  std::int32_t first_node = 0, n_nodes = 0;  // in tokens, parents and q
  std::int32_t first_row = 0;                // of the target's logits and distributions
  bool coupled = false;
  bool deterministic = false;  // one-hot q
  // True: siblings share one q and are drawn without replacement. False: each is drawn from its own q. Only tests set
  // it so far; proposers of sampled trees will.
  bool without_replacement = false;
  RandomAddress first;  // of the first proposed token; depth d uses output_index + d
};

struct DeviceVerifyResult {
  std::int32_t n_accepted = 0;
  std::int32_t added_token = -1;
  std::int32_t rejected_one = 0;
  DistributionState state = DistributionState::kFine;
  std::int32_t accepted[kMostNodes] = {};  // node indices
};

// Grid x: proposal x.
struct Accept {
  const ProposalRows* proposals = nullptr;
  const std::int32_t* tokens = nullptr;   // [Σ n_nodes]
  const std::int32_t* parents = nullptr;  // [Σ n_nodes] −1: the last committed token
  const DraftDistribution* q = nullptr;   // [Σ n_nodes]; not read for deterministic and coupled proposals
  std::int32_t vocab = 0;
  const float* target_logits = nullptr;
  std::int64_t target_stride = 0;
  const RowDistribution* target_distributions = nullptr;
  const RowPart* target_parts =
      nullptr;  // [target rows, kRowParts] from GumbelParts, for coupled proposals; null: computed here
  DeviceVerifyResult* results = nullptr;
};

// The children of one node, in the order in which they are verified.
struct Siblings {
  std::int32_t nodes[kMostNodes];
  double rest[kMostNodes];  // mass of q without the earlier siblings' tokens; 1 with replacement
};

// The residual of p after a node's rejected children: r ← max(0, r − q) / total for each in turn.
struct Residual {
  const Accept* job;
  const ProposalRows* proposal;
  std::int32_t target_row;
  const Siblings* siblings;
  const std::int32_t* refused;  // indices of the rejected siblings, in order
  const double* totals;
  std::int32_t n_refused;

  SLIP_DEVICE LogitRow target() const { return {job->target_logits + target_row * job->target_stride, job->vocab}; }
  SLIP_DEVICE std::int32_t token_of(std::int32_t sibling) const {
    return job->tokens[proposal->first_node + siblings->nodes[sibling]];
  }
  // A sibling's q before renormalization.
  SLIP_DEVICE double share_of_q(std::int32_t sibling, std::int32_t id) const {
    for (std::int32_t earlier = 0; proposal->without_replacement && earlier < sibling; ++earlier) {
      if (token_of(earlier) == id) return 0;
    }
    return probability(job->q[proposal->first_node + siblings->nodes[sibling]], job->vocab, id);
  }
  SLIP_DEVICE double q_of(std::int32_t sibling, std::int32_t id) const {
    if (proposal->deterministic) return token_of(sibling) == id ? 1.0 : 0.0;
    return share_of_q(sibling, id) / siblings->rest[sibling];
  }
  SLIP_DEVICE double operator()(std::int32_t id) const {
    double r = probability(target(), job->target_distributions[target_row], id);
    for (std::int32_t i = 0; i < n_refused && r > 0; ++i) {
      const double left = r - q_of(refused[i], id);
      r = left > 0 ? left / totals[i] : 0.0;
    }
    return r;
  }
};
struct ShareOfResidual {
  Residual residual;
  SLIP_DEVICE Mass operator()(std::int32_t id) const { return to_fixed(residual(id), kShareBits); }
};
// The residual mass after one more rejection.
struct ShareLeft {
  Residual residual;
  std::int32_t sibling;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    const double left = residual(id) - residual.q_of(sibling, id);
    return left > 0 ? to_fixed(left, kShareBits) : 0;
  }
};
struct ShareOfQ {
  Residual residual;
  std::int32_t sibling;
  SLIP_DEVICE Mass operator()(std::int32_t id) const { return to_fixed(residual.share_of_q(sibling, id), kShareBits); }
};

struct AcceptShared {
  DistributionShared distribution;
  Siblings siblings;
  std::int32_t refused[kMostNodes];
  double totals[kMostNodes];
};

struct NodeResult {
  std::int32_t child = -1, token = -1;
  bool had_children = false;
};

// Adds a node after its earlier siblings.
SLIP_DEVICE void add_sibling(const VocabularyBlock& block, const Residual& residual, std::int32_t sibling,
                             std::int32_t node, AcceptShared& shared) {
  block.each([&](int thread) {
    if (thread != 0) return;
    shared.siblings.nodes[sibling] = node;
    shared.siblings.rest[sibling] = 1;
  });
  if (sibling == 0 || !residual.proposal->without_replacement || residual.proposal->deterministic) return;
  // Sums the rest directly: one minus the earlier tokens' mass would cancel.
  const Mass rest = sum_over(block, residual.job->vocab, ShareOfQ{residual, sibling}, shared.distribution);
  block.each([&](int thread) {
    if (thread == 0) shared.siblings.rest[sibling] = from_fixed(rest, kShareBits);
  });
}

SLIP_DEVICE NodeResult verify_by_rejection(const VocabularyBlock& block, const Accept& job,
                                           const ProposalRows& proposal, std::int32_t node,
                                           const RandomAddress& address, AcceptShared& shared) {
  NodeResult at_node;
  Residual residual{&job, &proposal, proposal.first_row + node + 1, &shared.siblings, shared.refused, shared.totals, 0};
  std::int32_t sibling = -1;
  for (std::int32_t i = node + 1; i < proposal.n_nodes; ++i) {
    if (job.parents[proposal.first_node + i] != node) continue;
    at_node.had_children = true;
    add_sibling(block, residual, ++sibling, i, shared);
    const std::int32_t token = residual.token_of(sibling);
    const double u = unit_interval(random_bits(address, RandomPurpose::kAccept, static_cast<std::uint32_t>(sibling)));
    if (u < residual(token) / residual.q_of(sibling, token)) {
      block.each([](int) {});  // all threads have decided; the next node overwrites the siblings
      at_node.child = i;
      return at_node;
    }
    const Mass left = sum_over(block, job.vocab, ShareLeft{residual, sibling}, shared.distribution);
    if (left == 0) continue;  // r = q up to rounding: keep r unchanged
    block.each([&](int thread) {
      if (thread != 0) return;
      shared.refused[residual.n_refused] = sibling;
      shared.totals[residual.n_refused] = from_fixed(left, kShareBits);
    });
    ++residual.n_refused;
  }
  const ShareOfResidual share{residual};
  const Mass total = sum_over(block, job.vocab, share, shared.distribution);
  const double u = unit_interval(random_bits(address, RandomPurpose::kResidual, 0));
  at_node.token = draw_inverse_cdf(block, job.vocab, share, u, total, shared.distribution);
  return at_node;
}

SLIP_DEVICE NodeResult verify_coupled(const VocabularyBlock& block, const Accept& job, const ProposalRows& proposal,
                                      std::int32_t node, const RandomAddress& address, AcceptShared& shared) {
  NodeResult at_node;
  const std::int32_t row = proposal.first_row + node + 1;
  const LogitRow target{job.target_logits + row * job.target_stride, job.vocab};
  const RowPart* parts = job.target_parts == nullptr ? nullptr : job.target_parts + std::int64_t{row} * kRowParts;
  at_node.token = draw_gumbel(block, target, job.target_distributions[row], address, parts, shared.distribution);
  for (std::int32_t i = node + 1; i < proposal.n_nodes; ++i) {
    if (job.parents[proposal.first_node + i] != node) continue;
    at_node.had_children = true;
    if (job.tokens[proposal.first_node + i] != at_node.token) continue;
    at_node.child = i;
    return at_node;
  }
  return at_node;
}

SLIP_DEVICE void accept_proposal(const VocabularyBlock& block, const Accept& job, AcceptShared& shared) {
  const ProposalRows proposal = job.proposals[block.x];
  if (proposal.n_nodes == kNoProposal) return;
  DeviceVerifyResult* result = job.results + block.x;
  RandomAddress address = proposal.first;
  std::int32_t node = -1, n_accepted = 0;
  while (true) {
    const DistributionState state = job.target_distributions[proposal.first_row + node + 1].state;
    NodeResult at_node;
    if (state == DistributionState::kFine) {
      at_node = proposal.coupled ? verify_coupled(block, job, proposal, node, address, shared)
                                 : verify_by_rejection(block, job, proposal, node, address, shared);
    }
    const bool ends = at_node.child < 0;
    block.each_apart([&](int thread) {
      if (thread != 0) return;
      if (!ends) {
        result->accepted[n_accepted] = at_node.child;
        return;
      }
      result->n_accepted = n_accepted;
      result->added_token = at_node.token;
      result->rejected_one = at_node.had_children ? 1 : 0;
      result->state = state;
    });
    if (ends) return;
    node = at_node.child;
    ++n_accepted;
    ++address.output_index;
  }
}

}  // namespace slip::kernels::cuda
