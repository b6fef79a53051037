// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/speculative/prompt_lookup.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Proposes what prompt lookup finds in a request's own text and in past answers, for any request, without a draft
// model. Takes no forward pass. A proposal is a chain that ends where no earlier n-gram matches. Its tokens do not
// depend on random numbers, so both acceptance rules take them as deterministic. Memory: that of a PromptLookup for
// each sequence.
class LookupProposer final : public Proposer {
 public:
  bool drafts_for(const SequenceRef& /*sequence*/) const override { return true; }
  void begin(const SequenceRef& sequence) override;
  std::int64_t catch_up(std::span<const DraftTask> /*tasks*/, CatchUpBudget /*budget*/) override { return 0; }
  std::int32_t ready_depth(const SequenceRef& sequence) override;
  int confidence(const SequenceRef& sequence) override;
  void propose(std::span<const DraftTask> tasks) override;
  void on_verified(const SequenceRef& /*sequence*/, const VerifyResult& /*result*/) override {}
  void release(RequestId sequence) override { texts_.erase(sequence); }

 private:
  struct Text {
    explicit Text(const SequenceRef& sequence) : lookup(sequence.prediction, sequence.past_answers) {}
    PromptLookup lookup;
    std::size_t n_read = 0;           // committed tokens when the chain was made
    std::vector<std::int32_t> chain;  // at most kMaxProposalNodes tokens
    int confidence = 0;               // of the chain's first token
  };
  const Text* read(const SequenceRef& sequence);

  std::unordered_map<RequestId, Text> texts_;
};

}  // namespace slip
