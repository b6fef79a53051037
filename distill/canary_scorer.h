// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/error.h"
#include "distill/canary/canary.h"
#include "distill/canary/draft_scorer.h"
#include "distill/decision_sink.h"
#include "distill/publisher.h"
#include "distill/replay/replay_reader.h"
#include "distill/topic_state.h"

namespace slip {

// Scores finished records with every draft under decision (live, base, candidate, predecessor). Passes the verdicts to
// the publisher, which carries them out. A draft that computes a logit that is not a number is judged at once: a
// candidate is refused, a live version is rolled back, and a predecessor is no longer compared. Threads: one owner.
class CanaryScorer {
 public:
  CanaryScorer(CanaryOptions options, int k, std::shared_ptr<const DraftVersion> base, DraftScorer& scorer,
               const ReplayReader& replay, Publisher& publisher, DecisionSink& decisions)
      : options_(options),
        k_(k),
        base_(std::move(base)),
        scorer_(scorer),
        replay_(replay),
        publisher_(publisher),
        decisions_(decisions) {}

  // Scores a record that no trainer has drawn. Only evidence counts for verdicts. For the candidate, only evidence
  // newer than its cut-off counts. Error{kDataLoss} when the base draft computes a logit that is not a number.
  void score_new(TopicState& topic, const WaitingRecord& waiting);
  // Scores one of the held-out records that confirm a candidate. False when none is left. Errors as above.
  bool score_heldout(TopicState& topic);

 private:
  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record);
  void compare(TopicState& topic, const WaitingRecord& waiting);
  void compare_heldout(TopicState& topic);
  void give_up(TopicState& topic, const ModelWeights& draft, const Error& error);
  void add_to_candidate(TopicState& topic, const ReplayRecord& record);
  void add_to_watch(TopicState& topic, const ReplayRecord& record);
  void ask_for_heldout(TopicState& topic) const;
  void evaluate_candidate_now(TopicState& topic);
  bool evaluate_live_now(TopicState& topic);

  CanaryOptions options_;
  int k_;
  std::shared_ptr<const DraftVersion> base_;
  DraftScorer& scorer_;
  const ReplayReader& replay_;
  Publisher& publisher_;
  DecisionSink& decisions_;
  std::uint64_t newest_scored_ = 0;                        // sequence of the newest record of any topic
  const ReplayRecord* scored_ = nullptr;                   // `scores_` belong to this record
  std::map<const ModelWeights*, AcceptanceScore> scores_;  // by weights: live or predecessor may be the base
};

}  // namespace slip
