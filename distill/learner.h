// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// A topic's first optimizer step waits for this number of batches. Steps on a single batch overfit it, which harms
// later steps: after 16 requests and 16 steps in batches of 8, α of sql is .12 if 8 of the steps came after 8 requests,
// and .30 if all came after 16 (bench/ablate).
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
  std::int32_t batch_requests = 6;            // records per optimizer step; a topic's first waits for kFirstBatches
  std::int64_t steps_between_candidates = 5;  // of a new trainer; see steps_between_exports()
  std::size_t queue_observations = 4096;      // capacity of the inbox; beyond it the oldest are dropped
  int k = 3;                                  // draft chain length that scoring assumes
  bool prompt_lookup = false;                 // as in serving: EngineOptions::prompt_lookup
  int cores = 1;
  bool at_idle_priority = true;  // false: for tests on a busy machine
  LearnerPlacement placement;    // used only with at_idle_priority
  std::uint64_t seed = 1;
  // How many further answers to each prompt the target samples, after a second without a request, where a topic lacks
  // answers. 0: none. `answer_again` adds the end tokens to such a request and submits it to the engine; if it throws,
  // the request is dropped. Learner's thread. Empty: no further answers.
  std::int32_t sampled_answers = 3;
  std::function<void(Request)> answer_again;
  Dtype serve_dtype = Dtype::kBFloat16;
  PackDraft pack;                                          // packs versions before they go live; learner's thread
  std::filesystem::path optimizer_folder;                  // <data>/optimizer
  std::uint64_t memory_bytes = std::uint64_t{1024} << 20;  // limit for resident trainers; the others stay on disk
  std::int64_t save_us = std::int64_t{60} * 1'000'000;     // a crash loses at most this much training
  NearCopiesOptions near_copies;
  std::shared_ptr<DiskSpace> disk;  // learning pauses with it; null: never
};

// The learner: observations → replay → trainer → candidate → canary → publish → live draft. It trains one draft per
// topic in one background thread at idle priority, and reports every decision to the DecisionSink. A second thread
// writes the records to replay (RecordWriter). Threads: one owner, unless a function says otherwise.
//
// The canary scores only records that were not trained on. A candidate is a frozen export with a cut-off; records newer
// than the cut-off decide about it while training goes on. A candidate without a verdict is replaced by the next
// export, which was trained longer. Near-copies count once. A version is published only if the held-out tenth agrees.
class Learner {
 public:
  // `live_drafts` has one live draft per topic, index = TopicId. live_drafts[i]->get() is the version that the topic
  // serves now, and its name is the draft name under which versions are published. `base` is the base draft: it is
  // always scored, and it is a version in the store from which a topic without a version of its own starts. A topic
  // whose live draft is null or empty is not learned.
  Learner(LearnerOptions options, const TopicTable& topics, std::vector<std::shared_ptr<LiveDraft>> live_drafts,
          std::shared_ptr<const DraftVersion> base, DraftStore& store, ReplayBuffer& replay, Governor& governor,
          DecisionSink& decisions);
  ~Learner();  // stops, saves

  ObservationSink& observations();  // the engine's; takes them before start() and after stop() too

  void start();
  // Finishes the current unit, saves optimizer state, syncs replay and joins the threads.
  void stop();
  // Waits until every request finished so far is taken in and all work that it allows is done; for benchmarks and
  // tests. False on time-out.
  bool wait_idle(std::int64_t timeout_us);
  // False: nothing is recorded, trained or published until it is enabled again; the live drafts keep serving. Any
  // thread.
  void set_enabled(bool enabled);
  // Removes the records of a scope, including those of running requests, from memory and from the disk (see
  // ReplayBuffer::purge(), whose errors it throws). Returns the number of records. Waits for the learner's thread. Any
  // thread but the engine's.
  std::size_t purge(const PurgeScope& scope);
  // True while replay records cannot be written although the disk is not low. Any thread.
  bool replay_refused() const;
  // True while learning cannot begin, or training, scoring or saving fails, for any reason. All are retried after 1 to
  // 30 s. Any thread.
  bool failing() const;
  // Observations that became part of no record, because the inbox was full or parts of their request were lost.
  std::uint64_t dropped() const;
  // Live records in the replay buffer, as of the last second. Any thread.
  std::uint64_t replay_records() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
