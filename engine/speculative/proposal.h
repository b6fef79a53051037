// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/sampling/distribution.h"

namespace slip {

// Maximum nodes of one sequence's proposal, and so its maximum depth: bounds every draft length k.
inline constexpr std::int32_t kMaxProposalNodes = 16;
// Maximum tokens proposed for one place: the first choice and its siblings.
inline constexpr std::int32_t kMaxTreeWidth = 4;

// How proposed tokens were chosen; it decides the acceptance rule's arithmetic. Never renumber (stored in replay
// records).
enum class DrawMethod : std::uint8_t {
  kDeterministic = 0,  // argmax, n-gram, beam: counts as a one-hot q
  kSampled = 1,        // drawn from q by inverse CDF
  kGumbel = 2,         // argmax(log q + g) with the noise the target will use
};

enum class AcceptanceRule : std::uint8_t { kRejection = 0, kCoupled = 1 };

// What proposed one token; a draft's chain may hold tokens of prompt lookup. All guesses are prompt lookup's: from the
// request's own text, from past answers and from its prediction. A guess that is also the best token of a draft that
// was asked is the draft's. Only for counts: acceptance never reads it.
enum class ProposedBy : std::uint8_t { kDraft, kPromptLookup };
inline constexpr std::size_t kProposers = 2;

namespace kernels::cuda {
struct RowDistribution;
}
// A distribution on a device: `distribution` applied to `logits` there. Valid until its proposer proposes again.
struct DeviceDistribution {
  const float* logits = nullptr;  // [vocab]
  const kernels::cuda::RowDistribution* distribution = nullptr;
};

// A token tree below the last committed token; a chain is a tree that never branches. Node i's parent is parents[i] <
// i, or −1 for the root (the last committed token).
struct Proposal {
  std::vector<std::int32_t> tokens;   // [n]
  std::vector<std::int32_t> parents;  // [n]
  // [n] Σ along the path of log q, or of the log of a guess's hit rate; of a sibling, that of its parent.
  std::vector<float> path_logprob;
  std::vector<ProposedBy> proposed_by;       // [n]
  std::vector<Distribution> q;               // [n] transformed q that each token was drawn from; only with kSampled
  std::vector<DeviceDistribution> device_q;  // [n] instead of q, if a device drew the tokens and will verify them
  std::vector<Distribution> spare_q;         // memory of cleared proposals, for reuse
  DrawMethod draw_method = DrawMethod::kDeterministic;
  std::uint64_t version = 0;  // DraftVersion::number; 0: no draft
  int confidence = 0;         // Guesses::confidence when it was made
  std::size_t size() const { return tokens.size(); }
  // Appends a node below the last one.
  void add_to_chain(std::int32_t token, double log_q, ProposedBy by = ProposedBy::kDraft) {
    add(token, static_cast<std::int32_t>(tokens.size()) - 1, log_q, by);
  }
  // Appends another choice for the place of node `of`.
  void add_sibling(std::int32_t of, std::int32_t token) { add(token, parents[static_cast<std::size_t>(of)], 0); }
  // Appends a node below `parent`; of a sibling, log_q is 0.
  void add(std::int32_t token, std::int32_t parent, double log_q, ProposedBy by = ProposedBy::kDraft) {
    path_logprob.push_back(
        static_cast<float>(log_q + (parent < 0 ? 0 : path_logprob[static_cast<std::size_t>(parent)])));
    proposed_by.push_back(by);
    parents.push_back(parent);
    tokens.push_back(token);
  }
  // The number of earlier nodes with the same parent; 0: the first choice for its place.
  std::int32_t rank_of(std::int32_t node) const {
    const auto end = parents.begin() + node;
    return static_cast<std::int32_t>(std::count(parents.begin(), end, *end));
  }
  void clear() {
    tokens.clear();
    parents.clear();
    path_logprob.clear();
    proposed_by.clear();
    device_q.clear();
    while (!q.empty()) drop_last_q();
    draw_method = DrawMethod::kDeterministic;
    version = 0;
    confidence = 0;
  }
  std::int32_t count_first_choices(std::span<const std::int32_t> nodes) const {
    return static_cast<std::int32_t>(
        std::count_if(nodes.begin(), nodes.end(), [&](std::int32_t node) { return rank_of(node) == 0; }));
  }
  std::int32_t count_leading_first_choices(std::span<const std::int32_t> nodes) const {
    return static_cast<std::int32_t>(
        std::find_if(nodes.begin(), nodes.end(), [&](std::int32_t node) { return rank_of(node) != 0; }) -
        nodes.begin());
  }
  // The nodes before the first one that does not follow the node before it.
  std::int32_t chain_length() const {
    std::int32_t n = 0;
    while (n < std::ssize(parents) && parents[static_cast<std::size_t>(n)] == n - 1) ++n;
    return n;
  }
  // The number of nodes below `parent`.
  std::int32_t choices_below(std::int32_t parent) const {
    return static_cast<std::int32_t>(std::count(parents.begin(), parents.end(), parent));
  }
  // The first choice below `parent`; size() if there is none.
  std::size_t first_below(std::int32_t parent) const {
    return static_cast<std::size_t>(std::find(parents.begin(), parents.end(), parent) - parents.begin());
  }
  // Removes the last of `q` and keeps its memory for reuse.
  void drop_last_q() {
    spare_q.push_back(std::move(q.back()));
    q.pop_back();
  }
  // log q of a first choice, given the tokens before it.
  double log_q(std::size_t node) const {
    return path_logprob[node] - (parents[node] < 0 ? 0 : path_logprob[static_cast<std::size_t>(parents[node])]);
  }
  // Appends a copy of `distribution_of_node` to `q`, in memory that an earlier proposal left: allocating up to a
  // vocabulary for every node is expensive.
  void add_q(const Distribution& distribution_of_node) {
    if (spare_q.empty()) spare_q.emplace_back();
    q.push_back(std::move(spare_q.back()));
    spare_q.pop_back();
    // Rounded up, so that reused memory soon fits distributions of any size.
    const std::size_t room = std::max<std::size_t>(256, std::bit_ceil(distribution_of_node.ids.size()));
    q.back().ids.reserve(room);
    q.back().probabilities.reserve(room);
    q.back() = distribution_of_node;
  }
};

// The target's decision: the accepted path (node indices from the root on) and the one token that it adds itself
// (correction or bonus).
struct VerifyResult {
  std::vector<std::int32_t> accepted;  // node indices
  std::int32_t added_token = -1;
  bool rejected_one =
      false;  // a proposed token was tested and rejected (a first rejection); false: no node was left to test
};

}  // namespace slip
