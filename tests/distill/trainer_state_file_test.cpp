// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_state_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/error.h"
#include "tests/distill/trainer_fixture.h"

namespace slip {
namespace {

using testing::make_batch;
using testing::small_config;

class TrainerStateFileTest : public testing::TrainerTest {};

TEST_F(TrainerStateFileTest, GoesOnFromASavedStateBitForBit) {
  DraftTrainer whole(small_config(), 4, {});
  DraftTrainer other(small_config(), 99, {});
  for (int i = 0; i < 20; ++i) whole.step(make_batch(3, i));
  whole.save(folder_ / "state");
  other.load(folder_ / "state");
  EXPECT_TRUE(state_of(whole) == state_of(other));
  EXPECT_EQ(other.steps(), 20);
  for (int i = 20; i < 25; ++i) {
    const TrainStep a = whole.step(make_batch(3, i));
    const TrainStep b = other.step(make_batch(3, i));
    EXPECT_EQ(a.loss, b.loss);
  }
  EXPECT_TRUE(state_of(whole) == state_of(other));
}

TEST_F(TrainerStateFileTest, ADamagedStateFileIsRefusedAndChangesNothing) {
  DraftTrainer trainer(small_config(), 4, {});
  trainer.step(make_batch(2));
  const std::string good = state_of(trainer);
  auto refused = [&](const std::string& content) {
    std::ofstream(folder_ / "bad", std::ios::binary | std::ios::trunc) << content;
    try {
      trainer.load(folder_ / "bad");
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kTooLarge;
    }
  };
  for (std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{50}, good.size() / 2, good.size() - 1}) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_TRUE(refused(flipped)) << at;
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{60}, good.size() - 1}) {
    EXPECT_TRUE(refused(good.substr(0, length))) << length;
  }
  EXPECT_TRUE(refused(good + "x"));
  EXPECT_TRUE(state_of(trainer) == good);
  DraftTrainer other_shape(small_config(/*tied=*/false), 4, {});
  EXPECT_THROW(other_shape.load(folder_ / "snapshot"), Error);
  EXPECT_THROW(trainer.load(folder_ / "nothing here"), Error);
}

}  // namespace
}  // namespace slip
