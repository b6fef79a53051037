// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/trainer_state_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "common/crc32c.h"
#include "common/error.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

using testing::make_batch;
using testing::small_config;

class TrainerStateFileTest : public testing::TrainerTest {};

TEST_F(TrainerStateFileTest, GoesOnFromASavedStateBitForBit) {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    TrainerOptions options;
    options.optimizer = optimizer;
    options.average_decay = 0.9;
    DraftTrainer whole(small_config(), 4, options);
    DraftTrainer other(small_config(), 99, options);
    for (int i = 0; i < 20; ++i) whole.step(make_batch(3, i));
    whole.save(folder_ / "state");
    other.load(folder_ / "state");
    EXPECT_TRUE(state_of(whole) == state_of(other));
    EXPECT_EQ(other.steps(), 20);
    for (int i = 20; i < 25; ++i) {
      const TrainStep a = whole.step(make_batch(3, i));
      const TrainStep b = other.step(make_batch(3, i));
      EXPECT_EQ(a.loss, b.loss) << optimizer_name(optimizer);
    }
    EXPECT_TRUE(state_of(whole) == state_of(other)) << optimizer_name(optimizer);
  }
}

std::string refusal(DraftTrainer& trainer, const std::filesystem::path& file) {
  try {
    trainer.load(file);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    return error.message();
  }
}

TEST_F(TrainerStateFileTest, AStateOfAnotherOptimizerIsRefused) {
  TrainerOptions with_muon;
  with_muon.optimizer = OptimizerKind::kMuon;
  DraftTrainer adamw(small_config(), 4, {}), muon(small_config(), 4, with_muon);
  adamw.save(folder_ / "adamw");
  muon.save(folder_ / "muon");
  const std::string before = state_of(muon);
  EXPECT_NE(refusal(muon, folder_ / "adamw").find("another optimizer"), std::string::npos);
  EXPECT_NE(refusal(adamw, folder_ / "muon").find("another optimizer"), std::string::npos);
  EXPECT_TRUE(state_of(muon) == before);
}

// The format of release 0.1: version 2, without the optimizer field.
TEST_F(TrainerStateFileTest, AStateOfTheOlderFormatIsRefused) {
  DraftTrainer trainer(small_config(), 4, {});
  std::string content = state_of(trainer);
  content[7] = 2;
  content.erase(8 + 8 * 4, 4);
  content.resize(content.size() - 4);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(content)));
  content.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  std::ofstream(folder_ / "old", std::ios::binary) << content;
  EXPECT_NE(refusal(trainer, folder_ / "old").find("another format"), std::string::npos);
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
