// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_times.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/sampling/random.h"

namespace slip {
namespace {

// Steps with known times and 5 % noise.
struct Machine {
  double all_us = 8'700, fewer_us = 11'500, leased_us = 11'500;
  std::uint64_t seed = 1;
  std::uint32_t n = 0;

  double step_us(StepMode mode) {
    const double u = uniform({seed, 0, 3}, RandomPurpose::kDraft, n++);
    const double base = mode == StepMode::kAll ? all_us : mode == StepMode::kFewer ? fewer_us : leased_us;
    return base * (0.95 + 0.1 * u);
  }
  // Runs unleased steps; returns how many had all threads.
  int run(StepTimes& times, int steps) {
    int n_all = 0;
    for (int i = 0; i < steps; ++i) {
      const StepMode mode = times.plan();
      n_all += mode == StepMode::kAll ? 1 : 0;
      times.add(mode, step_us(mode));
    }
    return n_all;
  }
};

TEST(StepTimes, AllThreadsWhereTheyPay) {
  StepTimes times(true, 2);
  Machine machine;
  machine.run(times, 100);
  EXPECT_EQ(times.chosen(), StepMode::kAll);
  EXPECT_GE(machine.run(times, 1000), 990) << "trials are to stay below one step in a hundred";
}

// Each trial with half the threads costs a step's time again.
TEST(StepTimes, AnObviousChoiceIsTriedTwiceAndThenSeldom) {
  StepTimes times(true, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 18'000};
  EXPECT_EQ(machine.run(times, 1000), 998);
  EXPECT_EQ(machine.run(times, 1000), 999);
  machine.fewer_us = 9'000;  // the next trial sees it, and more follow soon
  machine.run(times, 8 * 1024);
  EXPECT_EQ(times.chosen(), StepMode::kFewer);
}

// The system may interrupt any step.
TEST(StepTimes, OneSlowTrialMakesNoChoiceObvious) {
  StepTimes times(true, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 40'000};
  machine.run(times, 8);  // the first trial is among them
  machine.fewer_us = 10'000;
  EXPECT_LE(machine.run(times, 40), 35);
}

TEST(StepTimes, FewerWhereMoreBringNothing) {
  StepTimes times(true, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 10'050};
  machine.run(times, 300);
  EXPECT_EQ(times.chosen(), StepMode::kFewer);
  EXPECT_LE(machine.run(times, 1000), 30);
}

TEST(StepTimes, FollowsALoadThatChanges) {
  StepTimes times(true, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 9'500};
  machine.run(times, 500);
  EXPECT_EQ(times.chosen(), StepMode::kFewer);
  machine.fewer_us = 14'000;
  machine.run(times, 2000);
  EXPECT_EQ(times.chosen(), StepMode::kAll);
}

// A growing context makes later steps slower; that must not be attributed to their mode.
TEST(StepTimes, SlowerStepsLaterAreNotTakenForTheMode) {
  StepTimes times(true, 2);
  Machine machine;
  for (int i = 0; i < 1000; ++i) {
    machine.all_us *= 1.002;
    machine.fewer_us = machine.all_us;
    machine.run(times, 1);
  }
  EXPECT_EQ(times.chosen(), StepMode::kFewer);
}

TEST(StepTimes, ALeaseIsMeasuredAgainstTheStepsAroundIt) {
  StepTimes times(true, 2);
  Machine machine;
  EXPECT_DOUBLE_EQ(times.slowdown(), 2) << "the prior, before anything was measured";
  machine.run(times, 50);
  for (int i = 0; i < 200; ++i) {
    times.add(StepMode::kLeased, machine.step_us(StepMode::kLeased));
    machine.run(times, 1);
  }
  EXPECT_NEAR(times.slowdown(), 11.5 / 8.7, 0.04);
}

TEST(StepTimes, ALeaseOfSpareCoresCostsNothing) {
  StepTimes times(true, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 10'000, .leased_us = 10'100};
  machine.run(times, 300);
  for (int i = 0; i < 300; ++i) {
    times.add(StepMode::kLeased, machine.step_us(StepMode::kLeased));
    machine.run(times, 1);
  }
  EXPECT_DOUBLE_EQ(times.slowdown(), 1);
}

TEST(StepTimes, OneThreadHasNothingToChoose) {
  StepTimes times(false, 2);
  Machine machine{.all_us = 10'000, .fewer_us = 1};
  EXPECT_EQ(machine.run(times, 500), 500);
}

}  // namespace
}  // namespace slip
