// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "engine/speculative/guessed_chain.h"

namespace slip {

// Proposes what prompt lookup finds in a request's own text and in past answers, for any request, without a draft
// model. All its proposals are guesses. Memory: that of a GuessedChain for each sequence.
class LookupProposer final : public Proposer {
 public:
  bool drafts_for(const SequenceRef& /*sequence*/) const override { return true; }
  void begin(const SequenceRef& sequence) override;
  CatchUpTimes catch_up(std::span<const DraftTask> /*tasks*/, CatchUpBudget /*budget*/) override { return {}; }
  std::int32_t ready_depth(const SequenceRef& /*sequence*/) override { return 0; }
  Guesses guesses(const SequenceRef& sequence) override;
  std::int32_t propose(std::span<const DraftTask> tasks) override;
  void on_verified(const SequenceRef& /*sequence*/, const VerifyResult& /*result*/) override {}
  void release(RequestId sequence) override { chains_.erase(sequence); }

 private:
  GuessedChain* read(const SequenceRef& sequence);

  std::unordered_map<RequestId, GuessedChain> chains_;
};

}  // namespace slip
