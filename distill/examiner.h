// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "distill/canary.h"
#include "distill/course.h"
#include "distill/decision_sink.h"
#include "distill/draft_scorer.h"
#include "distill/publisher.h"

namespace slip {

// Scores every finished record with each draft that a decision waits for (live, base, candidate, predecessor), and has
// the publisher carry out the verdicts. Threads: one owner.
class Examiner {
 public:
  Examiner(CanaryOptions options, int k, std::shared_ptr<const DraftVersion> base, DraftScorer& scorer,
           Publisher& publisher, DecisionSink& decisions)
      : options_(options),
        k_(k),
        base_(std::move(base)),
        scorer_(scorer),
        publisher_(publisher),
        decisions_(decisions) {}

  // A record that nothing has been trained on yet; the candidate only counts it when it is newer than its cut-off.
  void examine_new(Course& course, const ReplayRecord& record);
  // The next of the held-out records a fresh candidate is scored on; false when there is none.
  bool examine_heldout(Course& course);
  // The last look at a candidate that is about to be superseded.
  void conclude(Course& course);

 private:
  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record);
  void add_to_candidate(Course& course, const ReplayRecord& record);
  void judge_candidate_when_due(Course& course);
  void judge_live_when_due(Course& course);

  CanaryOptions options_;
  int k_;
  std::shared_ptr<const DraftVersion> base_;
  DraftScorer& scorer_;
  Publisher& publisher_;
  DecisionSink& decisions_;
  const ReplayRecord* scored_ = nullptr;                   // the record that `scores_` are of
  std::map<const ModelWeights*, AcceptanceScore> scores_;  // live may be the base, the predecessor too
};

}  // namespace slip
