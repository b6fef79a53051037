// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/speculative/prompt_lookup.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Proposes what prompt lookup finds in a request's own text, for any request, without a draft model. Takes no forward
// pass. A proposal is a chain that ends where no earlier n-gram matches. Its tokens do not depend on random numbers, so
// both acceptance rules take them as deterministic. Memory: that of a PromptLookup for each sequence.
class LookupProposer final : public Proposer {
 public:
  bool drafts_for(const SequenceRef& /*sequence*/) const override { return true; }
  void begin(const SequenceRef& sequence) override;
  std::int64_t catch_up(std::span<const DraftTask> /*tasks*/, CatchUpBudget /*budget*/) override { return 0; }
  std::int32_t ready_depth(const SequenceRef& sequence) override;
  bool is_confident(const SequenceRef& sequence) override;
  void propose(std::span<const DraftTask> tasks) override;
  void on_verified(const SequenceRef& /*sequence*/, const VerifyResult& /*result*/) override {}
  void release(RequestId sequence) override { texts_.erase(sequence); }

 private:
  struct Text {
    explicit Text(std::span<const std::int32_t> prediction) : lookup(prediction) {}
    PromptLookup lookup;
    std::size_t n_read = 0;           // committed tokens when the chain was made
    std::vector<std::int32_t> chain;  // at most kMaxProposalNodes tokens
    bool is_confident = false;        // of the chain's first token
  };
  const Text* read(const SequenceRef& sequence);

  std::unordered_map<RequestId, Text> texts_;
};

}  // namespace slip
