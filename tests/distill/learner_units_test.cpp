// SPDX-License-Identifier: Apache-2.0
// When the learner asks for units of work, and when it gives their cores back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;

// Refuses every fourth unit, and notes what it is asked: grant, refusal, done.
class Notes final : public Governor {
 public:
  bool allow_unit(LearningUnit) noexcept override {
    calls += ++n_asked_ % 4 == 0 ? 'r' : 'g';
    return calls.back() == 'g';
  }
  void unit_done() noexcept override { calls += 'd'; }
  StepDecision allow_step(const TopicProgress&) noexcept override { return {false, "none", 0}; }

  std::string calls;  // of the learner's thread

 private:
  int n_asked_ = 0;
};

// Without cores the learner's thread may wait for seconds until it can ask for its next unit.
TEST(Learner, AsksForTheNextUnitBeforeItGivesItsCoresBack) {
  LearnerSetup setup;
  Notes notes;
  auto learner = setup.make_learner(notes);
  learner->start();
  for (std::uint64_t id = 1; id <= 30; ++id) tell(*learner, answered(id));
  EXPECT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_NE(notes.calls.find("gg"), std::string::npos) << notes.calls;
  bool has_unit = false;
  for (std::size_t i = 0; i < notes.calls.size(); ++i) {
    const char call = notes.calls[i];
    if (call == 'r' && has_unit) {
      EXPECT_EQ(notes.calls.substr(i, 2), "rd") << notes.calls;
    }
    if (call == 'd') {
      EXPECT_TRUE(has_unit) << notes.calls;
    }
    if (call != 'r') has_unit = call == 'g';
  }
  EXPECT_FALSE(has_unit) << notes.calls;
}

// Grants every unit, and notes whether files were written while it held one.
class WatchesWrites final : public Governor {
 public:
  WatchesWrites(std::vector<std::filesystem::path> files, double steps_per_request)
      : files_(std::move(files)), steps_per_request_(steps_per_request), written_(files_.size()) {}
  bool allow_unit(LearningUnit) noexcept override {
    look();
    return holds_unit_ = true;
  }
  void unit_done() noexcept override {
    look();
    holds_unit_ = false;
  }
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    return {within_cadence(steps_per_request_, topic.answers_seen, topic.steps_done), "", 0};
  }

  std::atomic<int> writes{0}, writes_in_unit{0};

 private:
  void look() noexcept {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::error_code missing;
      const auto at = std::filesystem::last_write_time(files_[i], missing);
      if (missing || at == written_[i]) continue;
      written_[i] = at;
      ++writes;
      if (holds_unit_) ++writes_in_unit;
    }
  }

  const std::vector<std::filesystem::path> files_;
  const double steps_per_request_;
  std::vector<std::filesystem::file_time_type> written_;
  bool holds_unit_ = false;
};

// Regression: the optimizer state was copied and synced to disk while a unit held the engine's cores.
TEST(Learner, CoresAreGivenBackBeforeASave) {
  LearnerSetup setup;
  setup.options.save_us = 0;  // a save is due every second
  WatchesWrites governor({setup.options.optimizer_folder / "sql.lineage"}, /*steps_per_request=*/1e6);
  auto learner = setup.make_learner(governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 16; ++id) tell(*learner, answered(id));
  const std::int64_t until_us = monotonic_us() + kPatienceUs;
  while (governor.writes < 2 && monotonic_us() < until_us) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  learner->stop();
  EXPECT_GE(governor.writes, 2);
  EXPECT_EQ(governor.writes_in_unit, 0);
}

// Regression: a new version was written and synced to disk within the unit that scored the last record.
TEST(Learner, CoresAreGivenBackBeforeAPublication) {
  LearnerSetup setup;
  WatchesWrites governor({setup.store.folder("sql", 1).parent_path() / "CURRENT"}, /*steps_per_request=*/1);
  auto learner = setup.make_learner(governor);
  learner->start();
  stream(*learner, 1, 160);
  learner->stop();
  EXPECT_GE(governor.writes, 1);
  EXPECT_EQ(governor.writes_in_unit, 0);
}

// A unit is only done when the governor allows it.
TEST(Learner, NothingIsScoredOrTrainedWithoutLeaveButRecordsAreKept) {
  LearnerSetup setup;
  testing::GrantsOnDemand governor(/*trains=*/true);
  auto learner = setup.make_learner(governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 30; ++id) tell(*learner, answered(id));
  EXPECT_FALSE(learner->wait_idle(300'000));
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 30U);
  EXPECT_TRUE(setup.recorded.scores().empty());
  EXPECT_TRUE(setup.recorded.decisions().empty());
}

}  // namespace
}  // namespace slip
