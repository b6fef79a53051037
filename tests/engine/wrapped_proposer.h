// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "engine/speculative/proposer.h"

namespace slip::testing {

// Another proposer, with what a test changes in it.
class WrappedProposer : public Proposer {
 public:
  explicit WrappedProposer(std::unique_ptr<Proposer> inner) : inner_(std::move(inner)) {}
  bool drafts_for(const SequenceRef& sequence) const override { return inner_->drafts_for(sequence); }
  void begin(const SequenceRef& sequence) override { inner_->begin(sequence); }
  CatchUpTimes catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) override {
    return inner_->catch_up(tasks, budget);
  }
  std::int32_t ready_depth(const SequenceRef& sequence) override { return inner_->ready_depth(sequence); }
  Guesses guesses(const SequenceRef& sequence) override { return inner_->guesses(sequence); }
  std::int32_t propose(std::span<const DraftTask> tasks) override { return inner_->propose(tasks); }
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override {
    inner_->on_verified(sequence, result);
  }
  void release(RequestId sequence) override { inner_->release(sequence); }

 private:
  std::unique_ptr<Proposer> inner_;
};

}  // namespace slip::testing
