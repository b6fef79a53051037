// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/service/learning_minutes.h"
#include "distill/decision_sink.h"
#include "distill/learning_log.h"
#include "engine/step_listener.h"
#include "ledger/ledger.h"
#include "ledger/rows.h"
#include "router/topic.h"
#include "server/metrics.h"

namespace slip::cli {

// Sums engine steps into one row per 10 s, so that the ledger grows with time, not with tokens. One owner.
class LoadBucket {
 public:
  static constexpr std::int64_t kBucketUs = 10'000'000;
  // True when `figures` began a new bucket: `done` then holds the previous one. `wall_us` is the current time.
  bool add(const StepFigures& figures, std::int64_t wall_us, EngineLoadRow& done);
  // The open bucket, for shutdown; false when empty.
  bool close(EngineLoadRow& done);

 private:
  EngineLoadRow row_;
};

// Names by topic index; draft names are empty without drafts.
struct RecordNames {
  std::vector<std::string> topics, drafts;
};

// Turns events of the engine and the learner into ledger rows and metrics. Threads: StepListener on the engine thread,
// DecisionSink on the learner's. Recording into the ledger never waits.
class Recorder final : public StepListener, public DecisionSink {
 public:
  Recorder(RecordNames names, Ledger& ledger, Metrics& metrics);

  void on_step(const StepFigures& figures) noexcept override;
  void on_finished(const RequestSummary& summary) noexcept override;

  void on_decision(const CanaryDecision& decision) noexcept override;
  void on_published(const DraftMeta& meta) noexcept override;
  void on_scored(const SameTextScore& score) noexcept override;
  void on_dropped(std::uint64_t observations) noexcept override;
  void on_learning(const LearningFigures& figures) noexcept override;

  void finish();  // records the open bucket and minute; call after the engine and the learner have ended

 private:
  template <class Make>
  void write_row(const char* what, Make make) noexcept;
  void add_drops(EngineLoadRow& row);
  void record_minute(LearningMinutes::Minute minute);
  RecordNames names_;
  Ledger& ledger_;
  Metrics& metrics_;
  LoadBucket bucket_;        // engine thread
  LearningMinutes minutes_;  // learner's thread, also the next
  StarvedSpells starved_;
  std::atomic<std::uint64_t> observations_lost_{0};  // since the last bucket
  std::uint64_t rows_lost_ = 0;                      // as of the last bucket
};

RequestRow request_row(const RequestSummary& summary, const RecordNames& names, std::int64_t wall_us);
DraftVersionRow version_row(const DraftMeta& meta);
CanaryRow canary_row(const CanaryDecision& decision);
SameTextRow same_text_row(const SameTextScore& score);

}  // namespace slip::cli
