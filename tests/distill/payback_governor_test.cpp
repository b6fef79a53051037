// SPDX-License-Identifier: Apache-2.0
#include "distill/payback_governor.h"

#include <gtest/gtest.h>

#include <string>

namespace slip {
namespace {

std::int64_t now_us = 0;
std::int64_t test_clock() {
  return now_us;
}

// An engine on two threads whose steps get longer under a lease, and a learner that requests units all the time.
class Scene {
 public:
  explicit Scene(PaybackOptions options = {}) {
    now_us = 1'000'000'000;
    cores = std::make_unique<CoreSharing>(pool, 1, test_clock);
    governor = make_payback_governor(options, *cores, test_clock);
  }

  struct Run {
    double cost = 0;    // share of the service's time
    double leased = 0;  // share of the steps that ran under a lease
    int units = 0;
  };
  // Busy for `seconds` with steps of `step_us`, or `slower` times as long on one thread. Units last 40 ms.
  Run run_busy(double seconds, LearningUnit unit, double slower = 1.32, std::int64_t step_us = 8'700) {
    Run run;
    const std::int64_t end = now_us + static_cast<std::int64_t>(seconds * 1e6);
    std::int64_t lost_us = 0, total_us = 0, unit_ends_us = -1;
    int steps = 0, leased_steps = 0;
    for (; now_us < end; ++steps) {
      if (unit_ends_us >= 0 && now_us >= unit_ends_us) {
        governor->unit_done();
        unit_ends_us = -1;
      }
      const bool in_lease = unit_ends_us >= 0;
      cores->begin_step({false, 4});
      if (unit_ends_us < 0 && governor->allow_unit(unit)) {
        ++run.units;
        unit_ends_us = now_us + (unit == LearningUnit::kScoring ? 10'000 : 40'000);
      }
      const bool fewer = pool.n_used() == 1;
      const auto took = static_cast<std::int64_t>(static_cast<double>(step_us) * (fewer ? slower : 1));
      now_us += took;
      cores->end_step(took, 2);
      total_us += took;
      lost_us += in_lease ? took - step_us : 0;
      leased_steps += in_lease ? 1 : 0;
    }
    if (unit_ends_us >= 0) governor->unit_done();
    run.cost = static_cast<double>(lost_us) / static_cast<double>(total_us);
    run.leased = static_cast<double>(leased_steps) / steps;
    return run;
  }

  // The engine idles for `seconds`, and the learner trains.
  void pause(double seconds) {
    for (const std::int64_t end = now_us + static_cast<std::int64_t>(seconds * 1e6); now_us < end; now_us += 5'000) {
      if (governor->allow_unit(LearningUnit::kTraining)) governor->unit_done();
    }
  }

  // Until a training unit is refused, beside a step that runs.
  void spend_all() {
    run_busy(200, LearningUnit::kTraining);
    cores->begin_step({false, 4});
    while (governor->allow_unit(LearningUnit::kTraining)) {
      governor->unit_done();
      run_busy(1, LearningUnit::kTraining);
      cores->begin_step({false, 4});
    }
  }

  kernels::ThreadPool pool{2};
  std::unique_ptr<CoreSharing> cores;
  std::unique_ptr<Governor> governor;
};

TEST(PaybackGovernor, TrainsFreelyWhileTheEngineIdles) {
  Scene scene({.max_share = 0});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(scene.governor->allow_unit(LearningUnit::kTraining));
    now_us += 40'000;
    scene.governor->unit_done();
  }
  EXPECT_EQ(scene.governor->share_of_service(), 0);
}

TEST(PaybackGovernor, CostsItsShareAndNoMore) {
  for (const double share : {0.02, 0.1}) {
    Scene scene({.max_share = share});
    scene.run_busy(120, LearningUnit::kTraining);  // the burst is spent
    const Scene::Run run = scene.run_busy(200, LearningUnit::kTraining);
    EXPECT_NEAR(run.cost, share, 0.15 * share) << share;
    EXPECT_NEAR(scene.governor->share_of_service(), share, 0.15 * share);
    EXPECT_GT(scene.governor->cost_tokens_per_s(), 0);
  }
}

TEST(PaybackGovernor, NegativeWithoutABoundItWouldTakeWhatItWants) {
  Scene scene({.max_share = 1});
  EXPECT_GT(scene.run_busy(200, LearningUnit::kTraining).leased, 0.7);
}

// An optimizer step that paused in its middle would pay for the end of a lease twice.
TEST(PaybackGovernor, AStepThatHasBegunGoesOnToItsEnd) {
  Scene scene;
  scene.spend_all();
  EXPECT_TRUE(scene.governor->allow_unit(LearningUnit::kTrainingRest));
  scene.governor->unit_done();
  // As long as the budget can be paid back.
  const Scene::Run run = scene.run_busy(200, LearningUnit::kTrainingRest);
  EXPECT_NEAR(run.cost, 0.1, 0.02);
}

// Seconds without engine steps add no budget, since max_share is a share of the time of steps.
TEST(PaybackGovernor, AnEngineThatStoodStillHasSavedUpNothing) {
  const auto units_after = [](std::int64_t pause_us) {
    Scene scene;
    scene.run_busy(200, LearningUnit::kTraining);
    now_us += pause_us;
    return scene.run_busy(5, LearningUnit::kTraining).units;
  };
  EXPECT_LE(units_after(60'000'000), units_after(0) + 2);
}

// Regression: a service that was restarted under load spent its burst on leases at once, and its first requests took
// two to three times as long.
TEST(PaybackGovernor, AFreshServiceTrainsBesideRequestsAfterFiveSeconds) {
  Scene scene;
  EXPECT_EQ(scene.run_busy(4.9, LearningUnit::kTraining).leased, 0);
  scene.run_busy(1, LearningUnit::kTraining);
  EXPECT_GT(scene.run_busy(8, LearningUnit::kTraining).leased, 0.7);
}

TEST(PaybackGovernor, SaysWhyAUnitWasRefused) {
  Scene scene;
  EXPECT_STREQ(scene.governor->reason(), "");
  scene.spend_all();
  EXPECT_STREQ(scene.governor->reason(), "over learning.max_share");
}

// At half load there is enough idle time; leases would only increase the inter-token latency.
TEST(PaybackGovernor, AnEngineWithPausesIsLeftAloneWhileItIsBusy) {
  Scene scene;
  const auto half_load = [&](int seconds) {
    int n_leased = 0;
    for (int i = 0; i < 10 * seconds; ++i) {
      n_leased += scene.run_busy(0.05, LearningUnit::kTraining).units;
      now_us += 50'000;
    }
    return n_leased;
  };
  half_load(10);
  EXPECT_EQ(half_load(20), 0);
  EXPECT_STREQ(scene.governor->reason(), "waits for idle cores");
  EXPECT_TRUE(scene.governor->allow_unit(LearningUnit::kTraining)) << "now it is idle";
}

// Regression: the share of a single second decided, and most seconds of a service at half of its capacity hold a busy
// stretch. Training and scoring then took leases that the pauses made needless, and raised p99 between tokens.
TEST(PaybackGovernor, LongBusyStretchesBetweenPausesTakeNoLease) {
  Scene scene;
  const auto uneven_load = [&](LearningUnit unit) {
    constexpr struct {
      double busy_s, pause_s;
    } kStretches[] = {{1.2, 0.1}, {0.3, 0.5}, {2.0, 0.6}, {0.2, 0.05}, {0.9, 0.8}};
    int n_granted = 0;
    for (int i = 0; i < 20; ++i) {
      n_granted += scene.run_busy(kStretches[i % 5].busy_s, unit).units;
      scene.pause(kStretches[i % 5].pause_s);
    }
    return n_granted;
  };
  uneven_load(LearningUnit::kTraining);
  const std::int64_t leased_us = scene.cores->totals().leased_us;
  EXPECT_EQ(uneven_load(LearningUnit::kTraining), 0);
  EXPECT_GT(uneven_load(LearningUnit::kScoring), 100) << "in the gaps of the engine's threads";
  EXPECT_EQ(scene.cores->totals().leased_us, leased_us);
}

// Regression: near its capacity a service whose requests come in bursts is busy for many seconds at a time. Leases in
// these seconds made answers take 1.36 times as long, since each request that queues waits for all before it.
TEST(PaybackGovernor, BurstsNearCapacityTakeNoLease) {
  Scene scene;
  const auto bursts = [&](double pause_s) {
    int n_leased = 0;
    for (int i = 0; i < 5; ++i) {
      n_leased += scene.run_busy(20, LearningUnit::kTraining).units;
      scene.pause(pause_s);
    }
    return n_leased;
  };
  scene.pause(3);
  EXPECT_EQ(bursts(1.5), 0);
  EXPECT_GT(bursts(0.1), 200) << "clients that never pause";
}

// A pause in which the learner soon has nothing left to do is a pause too.
TEST(PaybackGovernor, PausesCountThoughTheLearnerNeedsLittleOfThem) {
  Scene scene;
  const auto load = [&](int seconds) {
    int n_leased = 0;
    for (int i = 0; i < seconds / 2; ++i) {
      n_leased += scene.run_busy(1, LearningUnit::kTraining).units;
      scene.pause(0.05);
      now_us += 950'000;
    }
    return n_leased;
  };
  load(10);
  EXPECT_EQ(load(20), 0);
}

// As in comparisons, where a service learns only while its turn lasts.
TEST(PaybackGovernor, TimeInWhichNothingWasAskedForIsNoPause) {
  Scene scene;
  int n_leased = 0;
  for (int turn = 0; turn < 4; ++turn) {
    n_leased = scene.run_busy(3, LearningUnit::kTraining).units;
    now_us += 3'600'000'000;
  }
  EXPECT_GT(n_leased, 10);
}

// Regression: only a request for a unit measured the engine's time. After a busy spell a topic at its limit of steps
// got no unit, so the engine counted as busy for as long as it idled.
TEST(PaybackGovernor, ARefusedStepIsAQuestionSoIdleTimeIsSeen) {
  Scene scene({.payback_s = 1e9});
  scene.run_busy(6, LearningUnit::kTraining);
  TopicProgress topic{.answers_seen = 48};
  while (scene.governor->allow_step(topic).allowed) ++topic.steps_done;
  ASSERT_EQ(topic.steps_done, 48U) << "the limit of a busy engine";
  for (int i = 0; i < 10; ++i) {
    now_us += 1'000'000;  // the learner asks again after a second
    scene.governor->allow_step(topic);
  }
  EXPECT_TRUE(scene.governor->allow_step(topic).allowed);
  EXPECT_TRUE(scene.governor->engine_idle()) << "then all records are scored";
}

// A unit beside a prompt would slow it down and make little progress, so it waits. If the service only reads prompts,
// training runs beside them after the longest wait.
TEST(PaybackGovernor, TrainingWaitsForAPromptButNotForEver) {
  Scene scene({.max_share = 1});
  scene.run_busy(6, LearningUnit::kTraining);
  const std::int64_t begin_us = now_us;
  std::int64_t granted_us = 0;
  for (int i = 0; i < 20 && granted_us == 0; ++i) {
    scene.cores->begin_step({true, 512});
    now_us += 200'000;
    if (scene.governor->allow_unit(LearningUnit::kTraining)) {
      granted_us = now_us;
    } else {
      EXPECT_STREQ(scene.governor->reason(), "waits for a prompt to be read");
      EXPECT_TRUE(scene.governor->allow_unit(LearningUnit::kScoring));
    }
    scene.governor->unit_done();
    now_us += 100'000;
    scene.cores->end_step(300'000, 1);
  }
  EXPECT_GE(granted_us - begin_us, 1'500'000);
  EXPECT_LE(granted_us - begin_us, 3'000'000);
}

// Cores that the engine does not use are free: a lease that lengthens no step is never refused.
TEST(PaybackGovernor, SpareCoresCostNothing) {
  Scene scene({.max_share = 0.01, .burst_s = 0.5});
  scene.run_busy(60, LearningUnit::kTraining, /*slower=*/1.0);
  EXPECT_GT(scene.run_busy(60, LearningUnit::kTraining, /*slower=*/1.0).leased, 0.7);
}

TEST(PaybackGovernor, ScoringKeepsOnePercentOfTheTimeWhateverTheShare) {
  Scene scene({.max_share = 0});
  scene.run_busy(60, LearningUnit::kScoring);
  const Scene::Run run = scene.run_busy(200, LearningUnit::kScoring);
  const double of_the_time = run.units * 0.010 / 200;
  EXPECT_GE(of_the_time, 0.004) << "units of 10 ms last until the step ends";
  EXPECT_LE(run.leased, 0.025);
  EXPECT_EQ(scene.run_busy(60, LearningUnit::kTraining).units, 0);
}

// No lease, and no budget.
TEST(PaybackGovernor, ScoringInGapsTakesNoCoreFromABusyEngine) {
  Scene scene({.max_share = 0});
  EXPECT_GT(scene.run_busy(60, LearningUnit::kScoringInGaps).units, 1'000);
  EXPECT_EQ(scene.cores->totals().leased_us, 0);
}

// Regression: waiting requests stopped all learning, so nothing was learned in a saturated hour and a bad version
// stayed live.
TEST(PaybackGovernor, WaitingRequestsDoNotStopLearning) {
  Scene scene;
  StepFigures saturated;
  saturated.at_us = now_us;
  saturated.n_waiting = 20;
  scene.governor->on_step(saturated);
  EXPECT_GT(scene.run_busy(200, LearningUnit::kTraining).units, 100);
}

// Regression: a service that was restarted in a burst had no idle time behind it, took leases and prolonged the queue.
TEST(PaybackGovernor, WhileRequestsWaitAMinuteTellsABurstFromClientsThatNeverPause) {
  Scene scene;
  scene.run_busy(6, LearningUnit::kTraining);
  EXPECT_GT(scene.run_busy(2, LearningUnit::kTraining).units, 10) << "nothing waits";
  StepFigures waiting;
  waiting.at_us = now_us;
  waiting.n_waiting = 1;
  scene.governor->on_step(waiting);
  EXPECT_EQ(scene.run_busy(50, LearningUnit::kTraining).units, 0);
  scene.run_busy(4, LearningUnit::kTraining);
  EXPECT_GT(scene.run_busy(2, LearningUnit::kTraining).units, 10);
}

TEST(PaybackGovernor, StepsFollowTheCurveOfTheirTopic) {
  Scene scene;
  LearningCurve flat;
  for (const double steps : {40, 80, 120, 160, 200}) flat.add({steps, steps + 40, {0, 0.001}});
  TopicProgress trained{.topic = 0, .answers_seen = 1000, .steps_done = 240, .curve = &flat, .alpha_live = 0.5};
  const TopicProgress fresh{.topic = 1, .answers_seen = 8};
  EXPECT_FALSE(scene.governor->allow_step(trained).allowed);
  EXPECT_STREQ(scene.governor->allow_step(trained).reason, "the curve is flat");
  EXPECT_TRUE(scene.governor->allow_step(fresh).allowed);
  trained.answers_seen += 128;
  EXPECT_TRUE(scene.governor->allow_step(trained).allowed) << "looks again";
}

// One step per request; three eighths of a step later.
TEST(PaybackGovernor, ABusyEngineIsAskedForFewerStepsAsATopicAges) {
  Scene scene({.payback_s = 1e9});
  scene.run_busy(6, LearningUnit::kTraining);
  const auto steps_by = [&](std::uint64_t requests) {
    TopicProgress topic{.answers_seen = requests};
    while (scene.governor->allow_step(topic).allowed) ++topic.steps_done;
    EXPECT_STREQ(scene.governor->allow_step(topic).reason, "waits for requests");
    return topic.steps_done;
  };
  EXPECT_EQ(steps_by(8), 8U);
  EXPECT_EQ(steps_by(48), 48U);
  EXPECT_EQ(steps_by(96), 66U);
  EXPECT_EQ(steps_by(960), 390U);
}

// Regression: all steps of a topic's life counted against the limit of a busy engine. 400 answers with 800 steps in
// idle time meant more than a thousand answers without a step, however much the text changed.
TEST(PaybackGovernor, StepsTakenInIdleTimeDoNotStopABusyTopic) {
  Scene scene({.payback_s = 1e9});
  TopicProgress topic{.answers_seen = 400};
  const auto train = [&] {
    while (scene.governor->allow_step(topic).allowed) ++topic.steps_done;
    return topic.steps_done;
  };
  ASSERT_EQ(train(), 800U) << "two for each answer in idle time";
  scene.run_busy(6, LearningUnit::kTraining);
  EXPECT_EQ(train(), 800U);
  topic.answers_seen += 40;
  EXPECT_EQ(train(), 815U) << "three eighths of a step for each later answer";
  EXPECT_STREQ(scene.governor->allow_step(topic).reason, "waits for requests");
}

}  // namespace
}  // namespace slip
