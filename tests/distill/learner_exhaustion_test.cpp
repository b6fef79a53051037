// SPDX-License-Identifier: Apache-2.0
// Where memory runs out, a piece of what the learner did is lost, and it learns on. Here one allocation of its threads
// fails at a time, from the first of a lesson to the last of a publication.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "common/log.h"
#include "tests/distill/learner_fixture.h"
#include "tests/failing_allocations.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::tell;
using testing::until_failure;

constexpr std::uint64_t kAnswers = 24;

class LearnerExhaustion : public ::testing::Test {
 protected:
  LearnerExhaustion() {
    testing::may_fail = false;  // what fails is the learner's, not this thread's
    set_log_level(LogLevel::kOff);
  }
  ~LearnerExhaustion() override {
    until_failure = 0;
    set_log_level(LogLevel::kInfo);
    testing::may_fail = true;
  }

  // Learns from kAnswers answers while the n-th allocation fails, then from as many others. Returns the allocations.
  int learn(int n) {
    last_id_ = 0;
    LearnerSetup setup;
    auto learner = setup.make_learner(*setup.governor);
    until_failure = n;
    learner->start();
    report_more(*learner);
    const int allocations = n - until_failure.exchange(0);
    report_more(*learner);
    // Training that has failed is tried again after a second.
    for (int i = 0; i < 500 && learner->failing(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(learner->failing()) << "n = " << n;
    for (int i = 0; i < 4 && setup.recorded.count("publish") == 0; ++i) report_more(*learner);
    learner->stop();
    EXPECT_GE(setup.replay.records("sql"), last_id_ - 1) << "n = " << n;
    EXPECT_GE(setup.recorded.count("publish"), 1U) << "n = " << n;
    return allocations;
  }

 private:
  void report_more(Learner& learner) {
    for (std::uint64_t i = 0; i < kAnswers; ++i) tell(learner, answered(++last_id_));
    EXPECT_TRUE(learner.wait_idle(kPatienceUs));
  }

  std::uint64_t last_id_ = 0;
};

TEST_F(LearnerExhaustion, OneAnswerAtMostIsLostAndItLearnsOn) {
  const int all = learn(std::numeric_limits<int>::max());
  ASSERT_GT(all, 1'000);
  for (int n = 1; n <= all && !HasFailure(); n += n < 12 ? 1 : std::max(1, all / 20)) learn(n);
}

}  // namespace
}  // namespace slip
