// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_seat.h"

#include <gtest/gtest.h>
#include <fstream>

#include "common/file.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::ScratchFolder;
using testing::tiny_config;

class TrainerSeatTest : public ::testing::Test {
 protected:
  TrainerSeatTest() {
    weights_ = folder_.path() / "weights";
    std::filesystem::create_directory(weights_);
    DraftTrainer(tiny_config(), 1, {}).export_draft(weights_);
  }

  std::filesystem::path seat_folder() const { return folder_.path() / "optimizer"; }
  DraftSource live(std::uint64_t version, std::uint64_t steps = 0) const {
    DraftSource source;
    source.version = std::make_shared<DraftVersion>(DraftVersion{DraftId{1}, "sql", version, 0, nullptr});
    source.folder = weights_;
    source.name = "sql";
    source.number = version;
    source.optimizer_steps = steps;
    return source;
  }
  static void train(DraftTrainer& trainer, int steps) {
    const ReplayRecord record = answered(1);
    for (int i = 0; i < steps; ++i) trainer.step(std::span(&record, 1));
  }

  ScratchFolder folder_;
  std::filesystem::path weights_;
};

TEST_F(TrainerSeatTest, AStateIsTakenUpByTheVersionItWasSavedUnder) {
  std::vector<float> before;
  {
    TrainerSeat seat({}, seat_folder());
    DraftTrainer& trainer = seat.take("sql", live(3, 100));
    train(trainer, 5);
    EXPECT_EQ(seat.total_steps(), 105U);
    before = trainer.logits(answered(1).tokens);
    seat.save();
  }
  TrainerSeat seat({}, seat_folder());
  DraftTrainer& trainer = seat.take("sql", live(3, 100));
  EXPECT_EQ(seat.total_steps(), 105U);
  EXPECT_EQ(trainer.logits(answered(1).tokens), before);
}

TEST_F(TrainerSeatTest, NegativeAnotherVersionStartsFromItsOwnWeights) {
  const std::vector<float> untrained = DraftTrainer(weights_, {}).logits(answered(1).tokens);
  {
    TrainerSeat seat({}, seat_folder());
    train(seat.take("sql", live(3)), 5);
    seat.save();
  }
  TrainerSeat seat({}, seat_folder());
  DraftTrainer& trainer = seat.take("sql", live(4, 7));
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_EQ(seat.total_steps(), 7U);
  EXPECT_EQ(trainer.logits(answered(1).tokens), untrained);
}

TEST_F(TrainerSeatTest, AfterAPublishTheStateFollowsTheNewVersion) {
  {
    TrainerSeat seat({}, seat_folder());
    train(seat.take("sql", live(3, 10)), 5);
    seat.follow(live(4, 15));
    seat.save();
  }
  TrainerSeat seat({}, seat_folder());
  seat.take("sql", live(4, 15));
  EXPECT_EQ(seat.total_steps(), 15U);
}

TEST_F(TrainerSeatTest, OneAtATimeTheOthersRestOnDisk) {
  TrainerSeat seat({}, seat_folder());
  train(seat.take("sql", live(1)), 4);
  train(seat.take("math", live(1)), 2);
  EXPECT_FALSE(seat.holds("sql"));
  EXPECT_TRUE(seat.holds("math"));
  EXPECT_EQ(seat.take("sql", live(1)).steps(), 4);
  EXPECT_EQ(seat.take("math", live(1)).steps(), 2);
}

TEST_F(TrainerSeatTest, ForgettingStartsOver) {
  TrainerSeat seat({}, seat_folder());
  train(seat.take("sql", live(1)), 4);
  seat.save();
  seat.forget("sql");
  EXPECT_FALSE(seat.holds("sql"));
  EXPECT_EQ(seat.take("sql", live(1)).steps(), 0);
}

// A crash between the two files, or a disk that lies: fresh moments, never an end.
TEST_F(TrainerSeatTest, TornOrMismatchedFilesAreLeftAside) {
  {
    TrainerSeat seat({}, seat_folder());
    DraftTrainer& trainer = seat.take("sql", live(1));
    train(trainer, 4);
    seat.save();
    train(trainer, 1);
    trainer.save(seat_folder() / "sql.opt");  // newer than its lineage
  }
  EXPECT_EQ(TrainerSeat({}, seat_folder()).take("sql", live(1)).steps(), 0);
  for (const char* file : {"sql.opt", "sql.lineage"}) {
    {
      TrainerSeat seat({}, seat_folder());
      train(seat.take("sql", live(1)), 4);
      seat.save();
    }
    std::ofstream(seat_folder() / file, std::ios::trunc) << "slipstream";
    EXPECT_EQ(TrainerSeat({}, seat_folder()).take("sql", live(1)).steps(), 0) << file;
  }
}

}  // namespace
}  // namespace slip
