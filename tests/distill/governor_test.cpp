// SPDX-License-Identifier: Apache-2.0
#include "distill/governor.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

std::int64_t now_us = 0;
std::int64_t test_clock() {
  return now_us;
}

// An engine that decodes with a steady gap, asking for training before each step, as the trainer thread would.
class Scene {
 public:
  explicit Scene(double slack) : governor(make_slack_governor(slack, 1.0, test_clock)) { now_us = 1'000'000'000; }

  // `cost` is added to the gap whenever training runs. Returns the share of steps that training ran in.
  double run(int steps, std::int64_t gap_us, std::int64_t cost_us, int n_waiting = 0) {
    int trained = 0;
    for (int i = 0; i < steps; ++i) {
      const bool training = governor->allow_unit();
      trained += training ? 1 : 0;
      now_us += gap_us + (training ? cost_us : 0);
      StepFigures figures;
      figures.at_us = now_us;
      figures.n_decoding = 1;
      figures.n_waiting = n_waiting;
      governor->on_step(figures);
      governor->unit_done();
    }
    return static_cast<double>(trained) / steps;
  }

  std::unique_ptr<Governor> governor;
};

TEST(Governor, StepsPerRequestIsDeterministic) {
  auto governor = make_steps_per_request_governor(0.5);
  EXPECT_TRUE(governor->allow_unit());
  std::uint64_t steps = 0;
  for (std::uint64_t requests = 0; requests <= 100; ++requests) {
    while (governor->allow_step(requests, steps)) ++steps;
    EXPECT_EQ(steps, requests / 2);
  }
  auto tenth = make_steps_per_request_governor(0.1);
  EXPECT_FALSE(tenth->allow_step(9, 0));
  EXPECT_TRUE(tenth->allow_step(10, 0));
  EXPECT_TRUE(tenth->allow_step(30, 2));
  EXPECT_FALSE(tenth->allow_step(30, 3));
}

TEST(SlackGovernor, NothingAtSaturation) {
  Scene scene(0.05);
  scene.run(1, 5'000, 0, /*n_waiting=*/1);
  EXPECT_EQ(scene.run(500, 5'000, 0, /*n_waiting=*/1), 0);
}

TEST(SlackGovernor, TrainsFreelyWhenNobodyIsServed) {
  Scene scene(0.05);
  EXPECT_TRUE(scene.governor->allow_unit());
  scene.run(20, 5'000, 0);
  now_us += 1'000'000;
  EXPECT_TRUE(scene.governor->allow_unit());
}

// One busy client is not saturation: harmless training runs most of the time, quiet stretches aside.
TEST(SlackGovernor, HarmlessTrainingRuns) {
  Scene scene(0.05);
  EXPECT_GT(scene.run(5000, 5'000, 100), 0.85);
}

TEST(SlackGovernor, HarmfulTrainingStops) {
  Scene scene(0.05);
  const double share = scene.run(5000, 5'000, 2'000);
  EXPECT_LT(share, 0.10);
  EXPECT_GT(share, 0.0) << "it must try again now and then";
}

TEST(SlackGovernor, NegativeWithoutABoundHarmfulTrainingWouldRun) {
  Scene scene(1000.0);
  EXPECT_GT(scene.run(5000, 5'000, 2'000), 0.85);
}

TEST(SlackGovernor, RecoversWhenTrainingNoLongerHurts) {
  Scene scene(0.05);
  scene.run(3000, 5'000, 2'000);
  EXPECT_GT(scene.run(10'000, 5'000, 0), 0.5);
}

}  // namespace
}  // namespace slip
