// SPDX-License-Identifier: Apache-2.0
#include "distill/publisher.h"

#include <gtest/gtest.h>

#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::House;

// A request of 20 tested tokens, for which the candidate takes `saved` steps less than the live draft.
PairedScore pair_that_saves(double saved) {
  PairedScore pair;
  pair.live.accepted = pair.live.first_rejections = 10;
  pair.live.steps = 11;
  pair.live.tokens = 21;
  pair.candidate = pair.live;
  pair.candidate.steps -= saved;
  return pair;
}

// The publisher of a house's only topic.
class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() {
    topic_.topic = "sql";
    topic_.live_draft = house_.live_draft;
  }

  House house_;
  ResidentTrainers trainers_{{.folder = house_.options.optimizer_folder}};
  Publisher publisher_{
      {.serve_dtype = Dtype::kFloat32, .margin = 0.1}, house_.base, house_.store, trainers_, house_.notebook};
  TopicState topic_;
};

// Regression: the test of candidates had a margin of 0, whatever canary.margin was. So nothing spoke against a candidate
// that was no better, and it was never refused.
TEST_F(PublisherTest, CandidatesAreTestedAgainstTheConfiguredMargin) {
  publisher_.enrol(topic_);
  for (int i = 0; i < 20; ++i) topic_.candidate_test.add(pair_that_saves(0));
  EXPECT_GT(topic_.candidate_test.log_evidence_below_margin(), 1);
}

}  // namespace
}  // namespace slip
