// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distill/governor.h"
#include "distill/topic_state.h"

namespace slip {

// Chooses the learner's next unit of work over all topics: which topic to score, export, train or sample, and whether
// that is due. The governor decides whether a step pays; LearningLoop does the work. Of a topic this writes only what a
// choice decides: its burst, `lacks_answers`, `figures.state`, `figures.predicted_gain`, and a curve that is still
// empty. Threads: one owner.
class UnitChoice {
 public:
  // References must outlive this. `base`: the base draft's weights. `topics` must not move once a unit was chosen.
  UnitChoice(std::vector<TopicState>& topics, Governor& governor, const ModelWeights& base, std::int32_t batch_requests)
      : topics_(topics), governor_(governor), base_(base), batch_requests_(batch_requests) {}

  // The kind of the next unit; empty when there is nothing to do now. `may_score`: topic_to_score() has one. Scoring
  // with cores of its own goes on until no record is left.
  std::optional<LearningUnit> next_unit(bool may_score, bool may_train);
  // The topic whose turn it is. Null: none has such work now, a failure is too recent, or its topic was given up.
  TopicState* topic_to_score();
  TopicState* topic_to_export();
  TopicState* topic_to_train();
  TopicState* topic_to_sample();  // as of the last topic_to_train()
  // Counts a step of the topic that topic_to_train() returned.
  void begin_step(TopicState& topic);
  // Whether a finished record should wait to be scored at all. False once scoring was given up.
  bool worth_scoring(const TopicState& topic) const;

 private:
  bool scoring_is_due() const;
  // Of a topic that has no burst of steps: the answers that it has, and those that it needs to begin one.
  struct AwaitedAnswers {
    std::uint64_t have = 0, needed = 0;
    std::uint64_t missing() const { return needed > have ? needed - have : 0; }
  };
  AwaitedAnswers awaited_answers(const TopicState& topic) const;
  double value_of(const TopicState& topic) const;
  double step_share_of(const TopicState& topic) const;
  TopicProgress progress_of(const TopicState& topic) const;

  std::vector<TopicState>& topics_;
  Governor& governor_;
  const ModelWeights& base_;
  const std::int32_t batch_requests_;
  bool scoring_ = false;            // stays true until no record is left
  TopicState* training_ = nullptr;  // topic of the current burst of steps
  std::uint64_t burst_steps_ = 0;   // steps of that burst so far
};

}  // namespace slip
