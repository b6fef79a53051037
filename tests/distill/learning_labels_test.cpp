// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_labels.h"

#include <gtest/gtest.h>
#include <string>

#include "distill/canary/canary.h"

namespace slip {
namespace {

TEST(LearningLabels, StatesAreFoundInTheirTexts) {
  EXPECT_EQ(learning_state("training"), LearningState::kTraining);
  EXPECT_EQ(learning_state("waits for requests"), LearningState::kWaiting);
  EXPECT_EQ(learning_state("the curve is flat"), LearningState::kFlat);
  EXPECT_EQ(learning_state("over max_share"), LearningState::kOverShare);
  EXPECT_EQ(learning_state("paused: the disk is low"), LearningState::kPaused);
  EXPECT_EQ(learning_state(""), LearningState::kOther);
}

TEST(LearningLabels, EveryStateHasANameOfItsOwn) {
  for (const auto one : kLearningStates) {
    for (const auto other : kLearningStates) {
      EXPECT_EQ(one == other, std::string(learning_state_name(one)) == learning_state_name(other));
    }
  }
}

// Uses the canary's own texts: if one is reworded, its label must not silently become "other".
TEST(LearningLabels, TheCanarysReasonsHaveLabels) {
  const auto pair = [](double steps_saved) {
    const AcceptanceScore live{.accepted = 40, .first_rejections = 40, .steps = 41, .tokens = 81};
    AcceptanceScore other = live;
    other.accepted += steps_saved;
    other.first_rejections -= steps_saved;
    other.steps -= steps_saved;
    return PairedScore{other, live};
  };
  const auto tested = [&](int n, double steps_saved) {
    PairedTest test(0.005);
    for (int i = 0; i < n; ++i) test.add(pair(steps_saved));
    return evaluate_candidate({}, test).reason;
  };
  LiveWatch watch;
  for (int i = 0; i < 40; ++i) watch.add(pair(-8));
  EXPECT_STREQ(decision_reason(tested(40, 8)), "better");
  EXPECT_STREQ(decision_reason(tested(40, -8)), "not_better");
  EXPECT_STREQ(decision_reason(tested(2, 8)), "undecided");
  EXPECT_STREQ(decision_reason(evaluate_live({}, watch).reason), "worse");
  PairedScore heldout;
  heldout.candidate.first_rejections = heldout.live.accepted = 9;
  EXPECT_STREQ(decision_reason(heldout_objection(heldout, 16, {})->reason), "worse_on_heldout");
  EXPECT_STREQ(decision_reason("not exported: a weight is not finite"), "not_finite");
  EXPECT_STREQ(decision_reason("the model computed a logit that is not a number"), "not_finite");
  EXPECT_STREQ(decision_reason("better, but not published: no space left"), "not_written");
  EXPECT_STREQ(decision_reason("worse than the base draft: odds 4 of 3"), "below_base");
  EXPECT_STREQ(decision_reason("it rained"), "other");
}

}  // namespace
}  // namespace slip
