// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_labels.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "distill/canary.h"

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

// The canary's own texts: when one is worded anew, its label must not silently become "other".
TEST(LearningLabels, TheCanarysReasonsHaveLabels) {
  const CanaryOptions options{.min_requests = 4, .rollback_requests = 4};
  const auto pairs = [](int n, double candidate) {
    std::vector<PairedScore> out;
    for (int i = 0; i < n; ++i) {
      const double noise = 0.1 * (i % 3);
      out.push_back({.candidate = {.accepted = 10 * candidate + noise, .first_rejections = 10 - 10 * candidate},
                     .live = {.accepted = 5, .first_rejections = 5}});
    }
    return out;
  };
  EXPECT_STREQ(decision_reason(judge_candidate(options, pairs(40, 0.8), 1).reason), "better");
  EXPECT_STREQ(decision_reason(judge_candidate(options, pairs(40, 0.3), 1).reason), "not_better");
  EXPECT_STREQ(decision_reason(judge_candidate(options, pairs(2, 0.8), 1).reason), "undecided");
  EXPECT_STREQ(decision_reason(judge_live(options, pairs(40, 0.3), 1).reason), "worse");
  EXPECT_STREQ(decision_reason("superseded by further training, not significant yet: gain"), "superseded");
  EXPECT_STREQ(decision_reason("not exported: a weight is not finite"), "not_finite");
  EXPECT_STREQ(decision_reason("better, but not published: no space left"), "not_written");
  EXPECT_STREQ(decision_reason("below the base draft"), "below_base");
  EXPECT_STREQ(decision_reason("it rained"), "other");
}

}  // namespace
}  // namespace slip
