// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "distill/canary/canary.h"
#include "distill/canary/learning_curve.h"
#include "distill/learning_figures.h"
#include "distill/replay/near_copies.h"
#include "distill/replay/replay_record.h"
#include "distill/trainer/draft_export.h"
#include "engine/speculative/live_draft.h"

namespace slip {

// A version as it is served, and where the store has it. A topic without a version of its own serves the base draft's
// weights under its own name, as number 0.
struct DraftSource {
  std::shared_ptr<const DraftVersion> version;
  std::string name;          // the draft in the store: the topic's own, or the base draft
  std::uint64_t number = 0;  // its version there
  std::filesystem::path folder;
  std::uint64_t optimizer_steps = 0;
};

// A frozen export of a topic's trainer. Training goes on while the candidate waits for its verdict. No trainer has
// drawn a record newer than `cut_off`, nor a held-out one.
struct Candidate {
  std::shared_ptr<const DraftExport> exported;  // what is written if it is published
  std::shared_ptr<const ModelWeights> weights;  // the same, packed for serving
  std::uint64_t cut_off = 0;                    // newest sequence that training may have drawn
  std::uint64_t optimizer_steps = 0, trained_requests = 0;
  double train_loss = 0;
  AcceptanceScore own, live, base;        // sums over the requests that this export was scored on
  std::deque<ReplayRecord> heldout_left;  // second opinion before publishing: yet to be scored
  std::optional<PairedScore> heldout;     // its sums; empty: not asked for yet
  std::size_t heldout_requests = 0;       // in these sums
};

// A finished request that waits for its scores.
struct WaitingRecord {
  ReplayRecord record;
  bool is_evidence = true;    // no near-copy of what was counted or trained on before, and no logits processors
  std::int64_t since_us = 0;  // monotonic
};

// Failures of one kind in a row, of which the log says the first one and the end.
struct FailureSpell {
  int n = 0;
  std::int64_t retry_us = 0;  // monotonic; training is not tried before
};

// What is learned about one topic: its draft, its cadence, its candidate and the evidence. Plain data of the learner's
// thread.
struct TopicState {
  std::string topic;
  std::shared_ptr<LiveDraft> live_draft;
  DraftSource live;

  NearCopies near_copies;
  std::deque<WaitingRecord> unscored;
  std::uint64_t scored = 0;  // records taken from `unscored` so far, for taking turns

  std::uint64_t trained_before = 0;  // requests behind the version that was live at the start
  std::uint64_t requests_seen = 0;   // finished and taken since the start
  std::uint64_t steps_done = 0;      // optimizer steps since the start
  std::uint64_t steps_since_export = 0;
  std::uint64_t requests_at_burst = 0;  // requests_seen when the last burst of steps ended
  bool in_burst = false;
  bool starved = false;               // replay has nothing to train on; until the next request
  std::uint64_t newest_drawn = 0;     // sequence up to which training may have seen records
  std::int64_t undrawn_since_us = 0;  // monotonic, when the oldest record came that no step could draw; 0: none
  double step_seconds = 0;            // of the learner's thread a step, smoothed
  FailureSpell training_failures, scoring_failures;
  LearningCurve curve;
  std::optional<LearningCurve> curve_at_live;  // when the live version went live; empty: after a rollback

  std::optional<Candidate> candidate;
  PairedTest candidate_test;            // candidate against live, over all exports of the unbroken trainer
  std::optional<DraftSource> previous;  // the version before the live one
  LiveWatch against_previous, against_base;
  AcceptanceScore recent_live, recent_base;  // on the same text, with forgetting

  TopicLearning figures;
};

}  // namespace slip
