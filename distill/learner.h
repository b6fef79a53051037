// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "common/disk_space.h"
#include "distill/canary/canary.h"
#include "distill/decision_sink.h"
#include "distill/governor.h"
#include "distill/idle_priority.h"
#include "distill/replay/near_copies.h"
#include "distill/replay/replay_buffer.h"
#include "distill/trainer/draft_trainer.h"
#include "engine/speculative/live_draft.h"
#include "router/topic.h"

namespace slip {

// Batches of requests that a topic's first optimizer step waits for. Steps on one batch alone learn it by heart, and
// later ones pay for it: after 16 requests and 16 steps α of sql is .12 if 8 of the steps came after 8 requests, .30 if
// all came after 16 (bench/ablate).
inline constexpr std::size_t kFirstBatches = 2;

struct LearnerOptions {
  TrainerOptions trainer{.optimizer = OptimizerKind::kMuon,
                         .learning_rate = 6e-3,
                         .matrix_learning_rate = 0.03,
                         .scale_by_loss = true,
                         .through_prompts = false,
                         .average_decay = 0.9,
                         .microbatch_tokens = 2048,
                         .products = fastest_products()};
  CanaryOptions canary;
  std::int32_t batch_requests = 8;            // records per optimizer step; a topic's first waits for kFirstBatches
  std::int64_t steps_between_candidates = 5;  // of a young trainer; see steps_between_exports()
  std::size_t queue_observations = 4096;      // drop oldest beyond
  int k = 3;                                  // chain length scores are walked with
  bool prompt_lookup = false;                 // as serving proposes: EngineOptions::prompt_lookup
  int cores = 1;
  bool at_idle_priority = true;  // serving comes first; tests on a busy machine do without
  LearnerPlacement placement;    // with at_idle_priority alone
  std::uint64_t seed = 1;
  Dtype serve_dtype = Dtype::kBFloat16;
  PackDraft pack;                                          // of versions before they go live, on the learner's thread
  std::filesystem::path optimizer_folder;                  // <data>/optimizer
  std::uint64_t memory_bytes = std::uint64_t{1024} << 20;  // of the trainers in memory; the others rest on disk
  std::int64_t save_us = std::int64_t{60} * 1'000'000;     // a crash loses at most this much training
  NearCopiesOptions near_copies;
  std::shared_ptr<DiskSpace> disk;  // learning pauses while it does; null: never
};

// The learning loop: observations → replay → trainer → candidate → canary → publish → live draft, one draft a topic, in
// one background thread at idle priority. Every decision goes to the DecisionSink. record() and friends never block,
// not even on a lock: a bounded inbox drops oldest and counts.
//
// What the canary scores was never trained on: a candidate is a frozen export with a cut-off, and the trainer goes
// on while newer records decide about it. A candidate without a verdict gives way to the next export, which has learned
// more. Near-copies count once, and the held-out tenth has to agree before a version is published.
class Learner final : public ObservationSink {
 public:
  // One live draft per topic, index = TopicId; live_drafts[i]->get() is what that topic serves now, and its name is the
  // draft that its versions are published under. `base` is the base draft, always scored; it is a version in the store,
  // which a topic without one of its own starts from. A topic whose live draft is null or empty is not learned.
  Learner(LearnerOptions options, const TopicTable& topics, std::vector<std::shared_ptr<LiveDraft>> live_drafts,
          std::shared_ptr<const DraftVersion> base, DraftStore& store, ReplayBuffer& replay, Governor& governor,
          DecisionSink& decisions);
  ~Learner() override;  // stops, saves

  void begin(ObservedRequest request) noexcept override;
  void record(Observation observation) noexcept override;
  void finish(RequestId request, bool completed) noexcept override;
  // A finished request's record, as if its observations had been recorded. Any thread.
  void add(ReplayRecord record) noexcept;

  void start();
  // Finishes the unit at hand, syncs replay, saves optimizer state, joins.
  void stop();
  // Waits until every finished request so far has been taken in and the work it allows is done; for benchmarks and
  // tests. False when the time was not enough.
  bool wait_idle(std::int64_t timeout_us);
  // Off: nothing is recorded, trained or published until it is on again; the drafts serve as they are. Any thread.
  void set_enabled(bool enabled);
  // Removes the records of a scope, those of requests that run now included: from memory, and from the disk as
  // ReplayBuffer::purge(), whose errors it throws. How many records. Waits for the learner's thread. Any thread but the
  // engine's.
  std::size_t purge(const PurgeScope& scope);
  // True while the disk refuses replay records although it is not low. Any thread.
  bool replay_refused() const;
  // True while training, scoring or saving fails, for whatever reason; they are tried again after 1 to 30 s. Any
  // thread.
  bool failing() const;
  // Observations that came to no record, because nobody had time for them or parts of their request were lost.
  std::uint64_t dropped() const;
  // Live records in the replay buffer, as of the last second. Any thread.
  std::uint64_t replay_records() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
