// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "checkpoints/draft_store.h"
#include "distill/canary/canary.h"
#include "distill/learning_figures.h"

namespace slip {

// What learning decided, on its way to the ledger, the log and the metrics. Called on the trainer thread: must not
// block, must not throw.
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

// One finished request scored off the hot path: live and base draft on the same verified text.
struct SameTextScore {
  std::int64_t at_us = 0;
  std::string topic, draft;
  std::uint64_t version = 0;
  RequestId request;
  AcceptanceScore live, base;
};

class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void on_decision(const CanaryDecision& decision) noexcept = 0;
  virtual void on_published(const DraftMeta& meta) noexcept = 0;
  virtual void on_scored(const SameTextScore& score) noexcept = 0;
  virtual void on_dropped(std::uint64_t observations) noexcept = 0;
  // About once a second.
  virtual void on_learning(const LearningFigures& figures) noexcept { (void)figures; }
};

}  // namespace slip
