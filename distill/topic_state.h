// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "distill/answer_sampler.h"
#include "distill/canary/canary.h"
#include "distill/canary/learning_curve.h"
#include "distill/learning_figures.h"
#include "distill/trainer/draft_export.h"
#include "distill/waiting_record.h"
#include "engine/speculative/live_draft.h"

namespace slip {

// A served draft version and its place in the store. A topic that has published nothing serves the base draft's
// weights: `version` then has the topic's draft name and number 0, and `name` and `number` are the base draft's.
struct DraftSource {
  std::shared_ptr<const DraftVersion> version;
  std::string name;          // draft name in the store: the topic's own, or the base draft's
  std::uint64_t number = 0;  // version number in the store
  std::filesystem::path folder;
  std::uint64_t optimizer_steps = 0;
  // Of a version of the topic's own draft: its parent, the version that was live before it, or the base draft after a
  // return to that. Else empty and 0.
  std::string parent_name = std::string();
  std::uint64_t parent = 0;
};

// Moves a mean towards `next`, whose weight is 1 − `memory`; the first value (0: none yet) is taken as it is.
inline void smooth(double& value, double next, double memory) {
  value = value == 0 ? next : memory * value + (1 - memory) * next;
}

// A frozen export of a topic's trainer. Training goes on while the candidate waits for its verdict. No record newer
// than `cut_off` and no held-out record was used to train it.
struct Candidate {
  std::shared_ptr<const DraftExport> exported;  // is written to disk if published
  std::shared_ptr<const ModelWeights> weights;  // the same, packed for serving
  std::uint64_t cut_off = 0;                    // newest record sequence that training may have drawn
  std::uint64_t optimizer_steps = 0, trained_requests = 0;
  double train_loss = 0;
  AcceptanceScore own;                    // summed over the scored requests
  std::deque<ReplayRecord> heldout_left;  // held-out records still to be scored before publishing
  std::optional<PairedScore> heldout;     // sums over the scored held-out records; empty: not requested yet
  std::size_t heldout_requests = 0;       // number of records in these sums
};

// Consecutive failures of one kind. The log reports the first one and the recovery.
struct FailureSpell {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  bool given_up() const { return retry_us == kNever; }

  int n = 0;
  std::int64_t retry_us = 0;          // monotonic; no retry before this time
  std::string cause = std::string();  // of the last failure, if it lies in a draft's weights
  int n_same = 0;                     // the last failures that had this cause
};

// The learning state of one topic: its draft, step counts, candidate and evidence. Plain data of the learner's thread.
struct TopicState {
  std::string topic;
  TopicId id;
  std::shared_ptr<LiveDraft> live_draft;
  DraftSource live;

  std::deque<WaitingRecord> unscored;
  std::uint64_t scored = 0;  // records taken from `unscored` so far; the topic with the fewest is next

  std::uint64_t trained_before = 0;  // requests that trained the version that was live at the start
  std::uint64_t records_before = 0;  // in replay before this run
  std::uint64_t requests_seen = 0;   // finished and taken in since the start
  std::uint64_t sampled_seen = 0;    // further answers to their prompts, likewise
  std::uint64_t steps_done = 0;      // optimizer steps since the start
  std::uint64_t steps_since_export = 0;
  bool export_waits = false;           // an export was abandoned: it is tried again without a further step
  std::uint64_t answers_at_burst = 0;  // answers_seen() when the last burst ended
  bool in_burst = false;               // a burst: the steps from a first one until the governor refuses the next
  bool starved = false;                // replay had no record to train on; false again with the next request
  std::uint64_t newest_drawn = 0;      // newest record sequence that training may have drawn
  std::int64_t undrawn_since_us = 0;   // monotonic arrival of the oldest record that no step could draw; 0: none
  double step_seconds = 0;             // CPU time of the learner's thread per optimizer step, smoothed
  FailureSpell training_failures, scoring_failures;
  LearningCurve curve;
  AnswerSampler sampler;
  bool lacks_answers = false;  // StepDecision::lacks_answers, or too few for its first step

  std::optional<Candidate> candidate;
  PairedTest candidate_test;            // candidate against live, over all exports since the trainer last restarted
  std::optional<DraftSource> previous;  // the version before the live one; empty: unknown, or after a rollback
  LiveWatch against_previous, against_base;  // evidence that the live version is worse; may roll it back
  // On recent text; older requests count less and less. Of the predecessor, evidence alone counts since the live
  // version serves.
  AcceptanceScore recent_live, recent_base, recent_previous;
  double steps_per_answer = 0;  // of the target with the live draft, likewise; 0: nothing scored yet

  TopicLearning figures;

  std::uint64_t answers_seen() const { return requests_seen + sampled_seen; }
};

}  // namespace slip
