// SPDX-License-Identifier: Apache-2.0
// Where memory runs out, a piece of what the learner did is lost, and it learns on. Here one allocation of its threads
// fails at a time, from the first of a lesson to the last of a publication.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "common/log.h"
#include "tests/common/patience.h"
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
    testing::all_fail = false;
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

// Holds the learner's thread in its first question. Then it refuses every unit until it grants all.
class HoldsTheThread final : public Governor {
 public:
  bool allow_unit(LearningUnit) noexcept override {
    asked = true;
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grants;
  }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress&) noexcept override { return {false, "none", 0}; }

  std::atomic<bool> asked{false}, released{false}, grants{false};
};

// The failed allocations of a second in which all fail, except this thread's, which does something at its beginning.
int failures_in_a_second(const std::function<void()>& at_its_beginning) {
  testing::n_failed = 0;
  testing::all_fail = true;
  at_its_beginning();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  testing::all_fail = false;
  return testing::n_failed;
}

// Bug: as long as there was no memory for records that wait, their thread tried to take them all the time.
TEST_F(LearnerExhaustion, RecordsThatThereIsNoMemoryForWaitAndTheirThreadsToo) {
  LearnerSetup setup;
  HoldsTheThread governor;
  auto learner = setup.make_learner(governor);
  learner->start();
  tell(*learner, answered(1));
  ASSERT_TRUE(testing::eventually([&] { return governor.asked.load(); }));
  const auto tell_more = [&] {
    for (std::uint64_t id = 2; id <= 9; ++id) tell(*learner, answered(id));
  };
  EXPECT_LT(failures_in_a_second(tell_more), 50) << "of the record writer's thread";
  ASSERT_TRUE(testing::eventually([&] { return learner->replay_records() >= 8; })) << "the first of them may be lost";
  const auto release = [&] {
    governor.released = true;
    EXPECT_TRUE(testing::eventually([&] { return learner->failing(); }));
  };
  EXPECT_LT(failures_in_a_second(release), 50) << "of the learner's thread";
  governor.grants = true;
  EXPECT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_EQ(setup.recorded.scores().size(), learner->replay_records());
}

}  // namespace
}  // namespace slip
