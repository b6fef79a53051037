// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/speculative/proposer.h"

namespace slip {

// Gives each sequence to the first of its proposers that drafts for it.
class ProposerList final : public Proposer {
 public:
  explicit ProposerList(std::vector<std::unique_ptr<Proposer>> proposers);

  bool drafts_for(const SequenceRef& sequence) const override { return first_for(sequence) != nullptr; }
  void begin(const SequenceRef& sequence) override;
  CatchUpTimes catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) override;
  std::int32_t ready_depth(const SequenceRef& sequence) override;
  Guesses guesses(const SequenceRef& sequence) override;
  std::int32_t propose(std::span<const DraftTask> tasks) override;
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override;
  void release(RequestId sequence) override;

 private:
  Proposer* first_for(const SequenceRef& sequence) const;
  Proposer* of(RequestId sequence) const;
  std::span<const DraftTask> tasks_of(const Proposer& proposer, std::span<const DraftTask> tasks);

  std::vector<std::unique_ptr<Proposer>> proposers_;
  std::unordered_map<RequestId, Proposer*> proposer_of_;
  std::vector<DraftTask> tasks_;  // scratch of one call
};

}  // namespace slip
