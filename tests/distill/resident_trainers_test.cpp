// SPDX-License-Identifier: Apache-2.0
#include "distill/resident_trainers.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <fstream>
#include <set>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::TemporaryFolder;
using testing::tiny_config;

constexpr std::int64_t kSecond = 1'000'000;

class ResidentTrainersTest : public ::testing::Test {
 protected:
  ResidentTrainersTest() {
    weights_ = folder_.path() / "weights";
    std::filesystem::create_directory(weights_);
    DraftTrainer(tiny_config(), 1, {}).export_draft(weights_);
  }

  ResidentTrainersOptions options(std::uint64_t memory_bytes = std::uint64_t{1} << 30) const {
    ResidentTrainersOptions options;
    options.folder = folder_.path() / "optimizer";
    options.memory_bytes = memory_bytes;
    options.save_us = 60 * kSecond;
    return options;
  }
  DraftSource live(std::uint64_t version, std::uint64_t steps = 0) const {
    DraftSource source;
    source.version = std::make_shared<DraftVersion>(DraftVersion{DraftId{1}, "sql", version, 0, nullptr});
    source.folder = weights_;
    source.name = "sql";
    source.number = version;
    source.optimizer_steps = steps;
    return source;
  }
  static DraftSource child_of(std::uint64_t parent, DraftSource source) {
    source.parent_name = source.name;
    source.parent = parent;
    return source;
  }
  static void train(DraftTrainer& trainer, int steps) {
    const ReplayRecord record = answered(1);
    for (int i = 0; i < steps; ++i) trainer.step(std::span(&record, 1));
  }
  static std::vector<float> logits(const DraftTrainer& trainer) { return trainer.logits(answered(1).tokens); }

  TemporaryFolder folder_;
  std::filesystem::path weights_;
};

TEST_F(ResidentTrainersTest, AStateIsTakenUpByTheVersionItWasSavedUnder) {
  std::vector<float> before;
  {
    ResidentTrainers trainers(options());
    DraftTrainer& trainer = trainers.take("sql", live(3, 100));
    train(trainer, 5);
    EXPECT_EQ(trainers.next_draw("sql"), 0U);
    EXPECT_EQ(trainers.total_steps("sql"), 105U);
    before = logits(trainer);
    trainers.save("sql");
  }
  ResidentTrainers trainers(options());
  DraftTrainer& trainer = trainers.take("sql", live(3, 100));
  EXPECT_EQ(trainers.total_steps("sql"), 105U);
  EXPECT_EQ(trainers.next_draw("sql"), 1U);
  EXPECT_EQ(logits(trainer), before);
}

TEST_F(ResidentTrainersTest, NegativeAnotherVersionStartsFromItsOwnWeights) {
  const std::vector<float> untrained = logits(DraftTrainer(weights_, {}));
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(3)), 5);
    trainers.save("sql");
  }
  ResidentTrainers trainers(options());
  DraftTrainer& trainer = trainers.take("sql", live(4, 7));
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_EQ(trainers.total_steps("sql"), 7U);
  EXPECT_EQ(logits(trainer), untrained);
}

// Regression: a crash between a publication and the save after it lost the moments.
TEST_F(ResidentTrainersTest, AStateSavedBeforeItsCandidateWentLiveIsTakenUp) {
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(3, 10)), 5);
    trainers.save("sql");
  }
  const DraftSource child = child_of(3, live(4, 14));
  ResidentTrainers trainers(options());
  EXPECT_EQ(trainers.take("sql", child).steps(), 5);
  EXPECT_EQ(trainers.total_steps("sql"), 15U);
  train(trainers.take("sql", child), 1);
  trainers.save("sql");
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(4, 14)).steps(), 6) << "it is the live version's own now";
}

// Regression: where the last save was older than the candidate, as it mostly is, that crash cost the moments and the
// learning curve. It must cost the steps since that save.
TEST_F(ResidentTrainersTest, AStateOlderThanTheCandidateIsTakenUpToo) {
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(3, 10)), 5);
    trainers.save("sql");
  }
  const DraftSource child = child_of(3, live(4, 16));
  ResidentTrainers trainers(options());
  EXPECT_TRUE(trainers.saved("sql", child).has_value());
  EXPECT_EQ(trainers.take("sql", child).steps(), 5);
  EXPECT_EQ(trainers.total_steps("sql"), 15U);
}

// Regression: publishing one topic wrote its lineage over the resident trainer of another, so both restarted from zero
// moments.
TEST_F(ResidentTrainersTest, AfterAPublishOnlyTheStateOfThatDraftFollows) {
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(3, 10)), 5);
    train(trainers.take("math", live(8, 20)), 2);
    trainers.follow("sql", live(3, 10), live(4, 15));
    trainers.save_all();
  }
  ResidentTrainers trainers(options());
  EXPECT_EQ(trainers.take("sql", live(4, 15)).steps(), 5);
  EXPECT_EQ(trainers.take("math", live(8, 20)).steps(), 2);
}

// Regression: a trainer that had to leave memory before its candidate was published lost all its steps.
TEST_F(ResidentTrainersTest, AfterAPublishTheStateOnDiskFollowsToo) {
  ResidentTrainers trainers(options(1));
  train(trainers.take("sql", live(3, 10)), 5);
  train(trainers.take("math", live(8, 20)), 2);
  ASSERT_FALSE(trainers.holds("sql"));
  trainers.follow("sql", live(3, 10), live(4, 15));
  EXPECT_EQ(trainers.take("sql", live(4, 15)).steps(), 5);
  EXPECT_EQ(trainers.total_steps("sql"), 15U);
}

// Regression: each publication wrote the whole state, gigabytes for a large draft. A crash after it costs at most the
// steps since the last save, even after several publications.
TEST_F(ResidentTrainersTest, AfterPublishesTheStateOfATrainerInMemoryIsTakenUpFromItsLastSave) {
  {
    ResidentTrainers trainers(options());
    DraftTrainer& trainer = trainers.take("sql", live(3, 10));
    train(trainer, 5);
    trainers.save("sql");
    const auto written = std::filesystem::last_write_time(options().folder / "sql.opt");
    train(trainer, 2);
    trainers.follow("sql", live(3, 10), live(4, 17));
    train(trainer, 1);
    trainers.follow("sql", live(4, 17), live(5, 18));
    EXPECT_EQ(std::filesystem::last_write_time(options().folder / "sql.opt"), written);
    EXPECT_EQ(trainers.total_steps("sql"), 18U);
  }  // as at a crash: nothing is saved
  ResidentTrainers trainers(options());
  EXPECT_EQ(trainers.take("sql", live(5, 18)).steps(), 5);
  EXPECT_EQ(trainers.total_steps("sql"), 15U);
}

TEST_F(ResidentTrainersTest, NegativeTheStateOfAnEarlierVersionDoesNotFollow) {
  ResidentTrainers trainers(options(1));
  train(trainers.take("sql", live(3, 10)), 5);
  train(trainers.take("math", live(8, 20)), 2);
  trainers.follow("sql", live(7, 12), live(8, 14));
  EXPECT_EQ(trainers.take("sql", live(8, 14)).steps(), 0);
}

TEST_F(ResidentTrainersTest, TwoTopicsInTurnsLearnWhatEachLearnsAlone) {
  ResidentTrainers alone(options());
  train(alone.take("sql", live(1)), 4);
  for (const std::uint64_t memory_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}}) {
    ResidentTrainers trainers(options(memory_bytes));
    for (int i = 0; i < 4; ++i) {
      train(trainers.take("sql", live(1)), 1);
      train(trainers.take("math", live(1)), 1);
    }
    EXPECT_EQ(trainers.holds("sql"), memory_bytes > 1) << "with room for one the other rests on disk";
    EXPECT_EQ(trainers.take("sql", live(1)).steps(), 4);
    EXPECT_EQ(logits(trainers.take("sql", live(1))), logits(alone.take("sql", live(1))));
    trainers.forget("sql");
    trainers.forget("math");
  }
}

// Regression: each topic's trainer had buffers of its own, of more bytes than its weights and moments.
TEST_F(ResidentTrainersTest, TrainersOfOneShapeSharePasses) {
  ResidentTrainers trainers(options());
  DraftTrainer& sql = trainers.take("sql", live(1));
  train(sql, 1);
  DraftTrainer& math = trainers.take("math", live(1));
  train(math, 1);
  EXPECT_EQ(math.passes(), sql.passes());
  EXPECT_EQ(trainers.bytes(), sql.bytes() + math.bytes() + sql.passes()->bytes());

  ModelConfig deeper = tiny_config();
  deeper.n_layers += 1;
  weights_ = folder_.path() / "deeper";
  std::filesystem::create_directory(weights_);
  DraftTrainer(deeper, 1, {}).export_draft(weights_);
  const std::uint64_t before = trainers.bytes();
  DraftTrainer& code = trainers.take("code", live(1));
  train(code, 1);
  EXPECT_NE(code.passes(), sql.passes());
  EXPECT_EQ(trainers.bytes(), before + code.bytes() + code.passes()->bytes());
}

// Trains `topics` in turns up to `steps` each, every step on the record given by the trainer's next draw, and saves
// trainers that are due; a round of all topics takes 25 s. `kills`: the rounds after which all trainers are lost
// unsaved. `memory_bytes` as in the options. Returns the saved state of each topic at the end.
class InTurns : public ResidentTrainersTest {
 protected:
  std::vector<std::string> states(const std::vector<std::string>& topics, std::uint64_t memory_bytes,
                                  const std::set<int>& kills) {
    constexpr int kSteps = 9;
    std::filesystem::remove_all(options().folder);
    auto trainers = std::make_unique<ResidentTrainers>(options(memory_bytes));
    std::map<std::string, std::int64_t> done;
    int round = 0;
    const auto is_done = [&](const std::string& topic) { return done[topic] == kSteps; };
    while (!std::all_of(topics.begin(), topics.end(), is_done)) {
      for (const std::string& topic : topics) {
        DraftTrainer& trainer = trainers->take(topic, live(1));
        if (trainer.steps() < kSteps) {
          const ReplayRecord record = answered(1 + trainers->next_draw(topic));
          trainer.step(std::span(&record, 1));
        }
        done[topic] = trainer.steps();
      }
      trainers->save_due(++round * 25 * kSecond);
      if (!kills.contains(round)) continue;
      trainers = std::make_unique<ResidentTrainers>(options(memory_bytes));
      for (const std::string& topic : topics) {
        const std::int64_t kept = trainers->take(topic, live(1)).steps();
        EXPECT_LE(done[topic] - kept, 3) << "steps of more than save_s were lost";
        done[topic] = kept;
      }
    }
    trainers->save_all();
    std::vector<std::string> result;
    for (const std::string& topic : topics) {
      result.push_back(read_file(options().folder / (topic + ".opt"), std::uint64_t{1} << 30));
    }
    return result;
  }
};

TEST_F(InTurns, TwoAndFourTopicsContinueBitForBitAfterKills) {
  for (const auto& topics : {std::vector<std::string>{"sql", "math"}, {"sql", "math", "code", "lang"}}) {
    for (const std::uint64_t memory_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}}) {
      const auto unbroken = states(topics, memory_bytes, {});
      EXPECT_TRUE(states(topics, memory_bytes, {1, 4, 8}) == unbroken) << topics.size() << " topics, " << memory_bytes;
    }
  }
}

// Regression: when the disk was full while one trainer was unloaded for another, the state of the other was deleted.
TEST_F(ResidentTrainersTest, ATrainerThatCannotBeSavedCostsNobodyElse) {
  {
    ResidentTrainers trainers(options(1));
    train(trainers.take("math", live(1)), 3);
    trainers.save("math");
    train(trainers.take("sql", live(1)), 4);
    trainers.save("sql");
    train(trainers.take("sql", live(1)), 1);
    arm_fail_point("optimizer.write:1:enospc");
    EXPECT_EQ(trainers.take("math", live(1)).steps(), 3);
    arm_fail_point("");
    EXPECT_EQ(trainers.take("sql", live(1)).steps(), 4) << "as last saved";
  }
}

// Regression: a trainer that could not be saved was dropped, and failing() stayed true for ever.
TEST_F(ResidentTrainersTest, AFailedSaveEndsWithWhatWasToBeSaved) {
  ResidentTrainers trainers(options());
  train(trainers.take("sql", live(1)), 2);
  arm_fail_point("optimizer.write:1:enospc");
  ::testing::internal::CaptureStderr();
  trainers.save_all();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("sql.opt takes "), std::string::npos) << said << "how much room it needs";
  arm_fail_point("");
  trainers.save_due(1000 * kSecond);
  EXPECT_TRUE(trainers.failing()) << "it waits still";
  trainers.forget("sql");
  trainers.save_due(1001 * kSecond);
  EXPECT_FALSE(trainers.failing());
}

TEST_F(ResidentTrainersTest, UnsavedStepsGrowNoOlderThanTold) {
  ResidentTrainers trainers(options());
  train(trainers.take("sql", live(1)), 2);
  trainers.save_due(1000 * kSecond);
  trainers.save_due(1059 * kSecond);
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 0);
  trainers.save_due(1061 * kSecond);
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 2);
  const auto saved = std::filesystem::last_write_time(options().folder / "sql.opt");
  trainers.save_due(2000 * kSecond);
  EXPECT_EQ(std::filesystem::last_write_time(options().folder / "sql.opt"), saved) << "nothing is new";
}

TEST_F(ResidentTrainersTest, ForgettingStartsOver) {
  ResidentTrainers trainers(options());
  train(trainers.take("sql", live(1)), 4);
  trainers.save("sql");
  trainers.forget("sql");
  EXPECT_FALSE(trainers.holds("sql"));
  EXPECT_EQ(trainers.take("sql", live(1)).steps(), 0);
}

// Regression: a crash between the two files lost all training since the live version, not only the last save_s.
TEST_F(ResidentTrainersTest, ACrashBetweenTheTwoFilesLosesNoStep) {
  std::vector<float> before;
  {
    ResidentTrainers trainers(options());
    DraftTrainer& trainer = trainers.take("sql", live(1, 100));
    for (int i = 0; i < 5; ++i) {
      trainers.next_draw("sql");
      train(trainer, 1);
      if (i == 3) trainers.save("sql");
    }
    before = logits(trainer);
    arm_fail_point("optimizer.lineage.write:1:enospc");
    EXPECT_THROW(trainers.save("sql"), Error);
    arm_fail_point("");
  }
  ResidentTrainers trainers(options());
  DraftTrainer& trainer = trainers.take("sql", live(1, 100));
  EXPECT_EQ(logits(trainer), before);
  EXPECT_EQ(trainers.total_steps("sql"), 105U);
  EXPECT_EQ(trainers.next_draw("sql"), 5U) << "no batch is drawn twice";
  trainers.save("sql");
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1, 100)).steps(), 5);
}

// After a corrupt file, or one that was put back, training restarts with fresh moments and does not fail.
TEST_F(ResidentTrainersTest, TornOrMismatchedFilesAreLeftAside) {
  {
    ResidentTrainers trainers(options());
    DraftTrainer& trainer = trainers.take("sql", live(1));
    train(trainer, 3);
    trainer.save(options().folder / "older");
    train(trainer, 1);
    trainers.save("sql");
    std::filesystem::rename(options().folder / "older", options().folder / "sql.opt");
  }
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 0);
  for (const char* file : {"sql.opt", "sql.lineage"}) {
    {
      ResidentTrainers trainers(options());
      train(trainers.take("sql", live(1)), 4);
      trainers.save("sql");
    }
    std::ofstream(options().folder / file, std::ios::trunc) << "slipstream";
    EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 0) << file;
  }
}

// Regression: the lineage of the damaged state stayed. After a crash between the two files of the next save, it was
// taken for the lineage of a state with which it had nothing to do, and the counts of steps and draws were wrong.
TEST_F(ResidentTrainersTest, TheLineageOfADamagedStateIsUsedForNoOther) {
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(1)), 4);
    trainers.save("sql");
  }
  std::ofstream(options().folder / "sql.opt", std::ios::trunc) << "slipstream";
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(1)), 5);
    arm_fail_point("optimizer.lineage.write:1:enospc");
    EXPECT_THROW(trainers.save("sql"), Error);
    arm_fail_point("");
  }
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 0);
}

// Regression: after a crash between the two files of the next save, the state of one version's trainer stood beside the
// lineage of another version, and was taken up once that one was live again.
TEST_F(ResidentTrainersTest, TheLineageOfAnotherVersionIsUsedForNoOtherState) {
  {
    ResidentTrainers trainers(options());
    train(trainers.take("sql", live(3)), 4);
    trainers.save("sql");
  }
  {
    ResidentTrainers trainers(options());
    ::testing::internal::CaptureStderr();
    train(trainers.take("sql", live(4)), 5);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("it is of sql version 3, and sql version 4 is live"), std::string::npos) << said;
    arm_fail_point("optimizer.lineage.write:1:enospc");
    EXPECT_THROW(trainers.save("sql"), Error);
    arm_fail_point("");
  }
  EXPECT_EQ(ResidentTrainers(options()).take("sql", live(3)).steps(), 0);
}

// The optimizer began afresh without a word.
TEST_F(ResidentTrainersTest, AMissingFileIsLogged) {
  for (const char* file : {"sql.opt", "sql.lineage"}) {
    {
      ResidentTrainers trainers(options());
      train(trainers.take("sql", live(1)), 4);
      trainers.save("sql");
    }
    std::filesystem::remove(options().folder / file);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(ResidentTrainers(options()).take("sql", live(1)).steps(), 0);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(std::string(file) + " is missing"), std::string::npos) << said;
  }
}

// Both files gone look like a trainer that was restarted, but a version that was trained makes one think.
TEST_F(ResidentTrainersTest, ATrainedVersionWithoutStateIsLogged) {
  const auto said_for = [&](std::uint64_t steps) {
    ::testing::internal::CaptureStderr();
    ResidentTrainers(options()).take("sql", live(1, steps));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_for(0), "");
  const std::string said = said_for(12);
  EXPECT_NE(said.find("sql.opt is not there"), std::string::npos) << said;
}

}  // namespace
}  // namespace slip
