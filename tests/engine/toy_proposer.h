// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <vector>

#include "engine/speculative/proposer.h"
#include "engine/speculative/token_path.h"
#include "tests/engine/toy_target.h"

namespace slip::testing {

// Proposes from a mixture of the target's language and another one, by the same three draw methods as a draft model.
class ToyProposer final : public Proposer {
 public:
  // `likeness` 1: the target's own distribution; 0: an unrelated one. `width` > 1: each node of the chain also gets
  // width − 1 siblings without children, so that the proposal is a tree.
  struct Options {
    double likeness = 0.7;
    std::int32_t width = 1;
    std::int32_t deepest = kMaxProposalNodes;
    bool needs_draft = true;
  };
  ToyProposer(const ToyLanguage& target, Options options) : target_(target), other_(target), options_(options) {
    other_.seed = target.seed + 1000;
  }

  bool drafts_for(const SequenceRef& sequence) const override {
    return !options_.needs_draft || sequence.live_draft != nullptr;
  }
  void begin(const SequenceRef& sequence) override { begun.insert(sequence.id.value); }
  CatchUpTimes catch_up(std::span<const DraftTask>, CatchUpBudget) override { return {}; }
  std::int32_t ready_depth(const SequenceRef&) override {
    if (fail_depth_at == ++n_depths) throw std::bad_alloc();
    return options_.deepest;
  }
  void release(RequestId sequence) override { begun.erase(sequence.value); }
  void on_verified(const SequenceRef& sequence, const VerifyResult&) override {
    if (!begun.contains(sequence.id.value)) throw std::logic_error("verified a sequence that never began");
  }

  // The engine calls this when it chooses draft lengths.
  Guesses guesses(const SequenceRef&) override {
    ++n_lengths_chosen;
    return {};
  }

  std::int32_t propose(std::span<const DraftTask> tasks) override {
    ++n_calls;
    if (fail_at == n_calls) throw std::runtime_error("the proposer broke");
    std::int32_t n_passes = 0;
    for (const DraftTask& task : tasks) {
      n_passes = std::max(n_passes, task.nodes);
      if (task.nodes > 0) grow(*task.sequence, task.nodes, *task.proposal);
    }
    return n_passes;
  }

  std::set<std::uint64_t> begun;
  int n_calls = 0, fail_at = 0, n_lengths_chosen = 0, n_depths = 0, fail_depth_at = 0;
  std::uint64_t version = 1;

 private:
  void grow(const SequenceRef& sequence, std::int32_t nodes, Proposal& proposal) {
    proposal.draw_method = draw_method_of(sequence);
    proposal.version = version;
    std::int32_t tip = -1;
    for (std::uint32_t depth = 0; static_cast<std::int32_t>(proposal.size()) < nodes; ++depth) {
      const std::int32_t parent = tip;
      for (std::int32_t rank = 0; rank < options_.width; ++rank) {
        if (static_cast<std::int32_t>(proposal.size()) == nodes) return;
        // The chain continues from the last sibling, so that accepted nodes must be moved in the cache.
        tip = static_cast<std::int32_t>(proposal.size());
        add_node(sequence, proposal, parent, depth, static_cast<std::uint32_t>(rank));
      }
    }
  }

  void add_node(const SequenceRef& sequence, Proposal& proposal, std::int32_t parent, std::uint32_t depth,
                std::uint32_t rank) {
    std::vector<std::int32_t> path;
    write_token_path(sequence.tokens, proposal, parent, path);
    auto logits = target_.logits(path);
    const auto noise = other_.logits(path);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(options_.likeness * logits[i] + (1 - options_.likeness) * noise[i]);
    }
    Distribution q;
    transform_logits(logits, *sequence.sampling, sequence.row_context(path), q);
    RandomAddress address = sequence.next_address();
    address.output_index += depth;
    std::int32_t token = q.ids.front();
    if (proposal.draw_method == DrawMethod::kDeterministic && rank > 0)
      token = (token + static_cast<std::int32_t>(rank)) % target_.vocab_size;
    if (proposal.draw_method == DrawMethod::kGumbel && rank + 1 == static_cast<std::uint32_t>(options_.width))
      token = sample_gumbel(q, address);
    if (proposal.draw_method == DrawMethod::kSampled)
      token = sample_inverse_cdf(q, uniform(address, RandomPurpose::kDraft, rank));
    const double above = parent < 0 ? 0 : proposal.path_logprob[static_cast<std::size_t>(parent)];
    proposal.path_logprob.push_back(static_cast<float>(above + std::log(std::max(q.probability(token), 1e-9))));
    proposal.proposed_by.push_back(ProposedBy::kDraft);
    proposal.tokens.push_back(token);
    proposal.parents.push_back(parent);
    if (proposal.draw_method != DrawMethod::kDeterministic) proposal.q.push_back(std::move(q));
  }

  ToyLanguage target_, other_;
  Options options_;
};

}  // namespace slip::testing
