// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "checkpoints/draft_store.h"
#include "distill/canary/canary.h"
#include "distill/learning_figures.h"

namespace slip {

// One decision about a draft version, reported to the ledger, the log and the metrics.
struct CanaryDecision {
  std::int64_t at_us = 0;  // wall clock
  std::string topic, draft;
  std::uint64_t live_version = 0;
  std::uint64_t candidate_version = 0;  // 0 when refused
  std::string kind;                     // "publish", "refuse", "rollback", "undecided"
  CanaryVerdict verdict;
  std::uint64_t train_steps = 0;
  double train_loss = 0;
};

// The scores of the live and the base draft on the text of one finished request, computed off the hot path.
struct SameTextScore {
  std::int64_t at_us = 0;
  std::string topic, draft;
  std::uint64_t version = 0;
  RequestId request;
  AcceptanceScore live, base;
};

// Receives decisions and figures of learning. All calls come on the learner's thread. They must not block and must not
// throw.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void on_decision(const CanaryDecision& decision) noexcept = 0;
  virtual void on_published(const DraftMeta& meta) noexcept = 0;
  virtual void on_scored(const SameTextScore& score) noexcept = 0;
  virtual void on_dropped(std::uint64_t observations) noexcept = 0;
  // Called about once a second.
  virtual void on_learning(const LearningFigures& figures) noexcept { (void)figures; }
};

}  // namespace slip
