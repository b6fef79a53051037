// SPDX-License-Identifier: Apache-2.0
#include "cli/config/draft_config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "common/file.h"

namespace slip::cli {
namespace {

std::string fault(const std::string& toml) {
  WarmupOptions options;
  try {
    apply_draft_config(toml, "d.toml", options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message() + " " + error.hint();
  }
  return "none";
}

WarmupOptions options_of(const std::string& file) {
  WarmupOptions options;
  const auto path = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "configs" / file;
  apply_draft_config(read_file(path, 1 << 20), path.string(), options);
  return options;
}

TEST(DraftConfig, ReadsTheDemoDraft) {
  const WarmupOptions options = options_of("demo-draft.toml");
  EXPECT_EQ(options.shape,
            (DraftShape{.hidden = 128, .layers = 2, .ffn = 352, .heads = 4, .kv_heads = 2, .tied = true}));
  EXPECT_DOUBLE_EQ(options.share, 0.5);
  EXPECT_EQ(options.steps, 0) << "until the held-out loss is flat";
  EXPECT_FALSE(options.temperature.has_value());
}

TEST(DraftConfig, ReadsTheEarlyDraftOfTheSameShape) {
  const WarmupOptions options = options_of("early-draft.toml");
  EXPECT_EQ(options.shape, options_of("demo-draft.toml").shape);
  EXPECT_DOUBLE_EQ(options.share, 0.1);
  EXPECT_EQ(options.steps, 300);
}

TEST(DraftConfig, AbsentKeysLeaveWhatIsThere) {
  WarmupOptions options;
  options.batch = 5;
  apply_draft_config(
      "hidden = 64\n[training]\nloss = \"tv\"\noptimizer = \"muon\"\nmatrix_learning_rate = 0.01\ntemperature = "
      "\"0.5\"\n",
      "d.toml", options);
  EXPECT_EQ(options.shape.hidden, 64);
  EXPECT_EQ(options.shape.layers, DraftShape{}.layers);
  EXPECT_EQ(options.batch, 5);
  EXPECT_EQ(options.trainer.loss.kind, LossKind::kTotalVariation);
  EXPECT_EQ(options.trainer.optimizer, OptimizerKind::kMuon);
  EXPECT_DOUBLE_EQ(options.trainer.matrix_learning_rate, 0.01);
  EXPECT_FLOAT_EQ(options.temperature.value(), 0.5F);
}

TEST(DraftConfig, FaultsNameLineAndNearestKey) {
  EXPECT_NE(fault("hidden = 64\nlayrs = 2\n").find("d.toml:2"), std::string::npos);
  EXPECT_NE(fault("hidden = 64\nlayrs = 2\n").find("layers"), std::string::npos);
  EXPECT_NE(fault("[training]\nlearning_rat = 1\n").find("learning_rate"), std::string::npos);
  EXPECT_NE(fault("[training]\nloss = \"mse\"\n").find("loss"), std::string::npos);
  EXPECT_NE(fault("layers = 0\n").find("layers"), std::string::npos);
  EXPECT_NE(fault("layers = true\n").find("layers"), std::string::npos);
  EXPECT_NE(fault("layers = \n").find("d.toml:1"), std::string::npos);
  EXPECT_NE(fault("[training]\ntemperature = \"warm\"\n").find("temperature"), std::string::npos);
}

// Bug: the hint was `slipstream serve --list-config`, which has no key of a draft.
TEST(DraftConfig, AnUnknownKeysHintNamesTheRightFile) {
  for (const char* toml : {"zzzzzzzz = 1\n", "[training]\nzzzzzzzz = 1\n"}) {
    EXPECT_NE(fault(toml).find("configs/demo-draft.toml has every key"), std::string::npos) << fault(toml);
    EXPECT_EQ(fault(toml).find("list-config"), std::string::npos) << fault(toml);
  }
  const std::string file = read_file(SLIPSTREAM_SOURCE_DIR "/configs/demo-draft.toml", 1 << 20);
  for (const char* key : {"kv_heads", "beta", "loss_temperature", "matrix_learning_rate", "weight_decay"}) {
    EXPECT_NE(file.find(std::string("\n") + key + " = "), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace slip::cli
