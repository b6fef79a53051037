// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/draft_export.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "distill/trainer/draft_trainer.h"
#include "kernels/elementwise.h"
#include "tests/distill/trainer/trainer_fixture.h"
#include "tests/engine/models/plain_decode.h"

namespace slip {
namespace {

using testing::learnable_record;
using testing::make_batch;
using testing::small_config;

class DraftExportTest : public testing::TrainerTest {};

std::vector<float> logits_of(std::shared_ptr<const ModelWeights> weights, const std::vector<std::int32_t>& tokens) {
  kernels::ThreadPool pool(1);
  const auto n = static_cast<std::int32_t>(tokens.size());
  LocalWorker worker(std::move(weights), n, n, n / PagePool::kPageTokens + 1, pool);
  return testing::PlainSequence(worker).feed_at_once(tokens, n);
}

TEST_F(DraftExportTest, WeightsInMemoryAreThoseOfTheFiles) {
  const std::vector<std::int32_t> tokens = learnable_record(9, 50, 0).tokens;
  for (const bool tied : {true, false}) {
    for (const Dtype dtype : {Dtype::kBFloat16, Dtype::kFloat32}) {
      TrainerOptions options;
      options.average_decay = 0.9;
      DraftTrainer trainer(small_config(tied), 5, options);
      for (int i = 0; i < 5; ++i) trainer.step(make_batch(3));
      const auto folder = folder_ / std::to_string(2 * static_cast<int>(tied) + static_cast<int>(dtype));
      std::filesystem::create_directories(folder);
      trainer.export_draft(folder);
      const auto loaded = ModelWeights::load(folder, dtype, /*check_finite=*/true), built = trainer.weights(dtype);
      EXPECT_TRUE(built->config.same_shape(loaded->config));
      EXPECT_EQ(built->bytes(), loaded->bytes());
      EXPECT_EQ(built->embedding, loaded->embedding);
      EXPECT_EQ(built->final_norm, loaded->final_norm);
      EXPECT_EQ(logits_of(built, tokens), logits_of(loaded, tokens));
      trainer.step(make_batch(3));
      EXPECT_NE(logits_of(trainer.weights(dtype), tokens), logits_of(built, tokens)) << "the next step shows";
    }
  }
}

TEST_F(DraftExportTest, AnExportIsFrozenAndWritesWhatItWas) {
  DraftTrainer trainer(small_config(), 5, {});
  const DraftExport before = trainer.exported();
  trainer.step(make_batch(3));
  std::filesystem::create_directories(folder_ / "out");
  before.write(folder_ / "out");
  const std::vector<std::int32_t> tokens = learnable_record(9, 50, 0).tokens;
  EXPECT_EQ(logits_of(ModelWeights::load(folder_ / "out", Dtype::kBFloat16), tokens),
            logits_of(before.weights(Dtype::kBFloat16), tokens));
  EXPECT_EQ(before.bytes(), 2 * static_cast<std::size_t>(small_config().parameters()));
}

// Regression: an export rounded value by value, which took as long as an optimizer step. The bits stay the same.
TEST_F(DraftExportTest, ValuesAreRoundedToTheNearestBfloat16) {
  std::vector<float> values = {0.0F,        -0.0F,      1e-45F, -1e-40F, std::numeric_limits<float>::max(),
                               1.00390625F, 1.01171875F};
  for (std::uint32_t i = 1; values.size() < 4099; ++i) {
    const auto value = std::bit_cast<float>(i * 0x9E3779B9U);
    if (std::isfinite(value)) values.push_back(value);
  }
  DraftExport exported(small_config());
  exported.add("model.norm.weight", {std::ssize(values)}, values.data(), values.size());
  exported.write(folder_);
  const std::string file = read_file(folder_ / "model.safetensors", 1 << 20);
  const char* stored = file.data() + file.size() - 2 * values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored + 2 * i, 2);
    ASSERT_EQ(bits, kernels::float_to_bf16(values[i])) << values[i];
  }
}

TEST_F(DraftExportTest, ATensorThatIsNotFiniteOrMissingIsRefusedByName) {
  DraftExport broken(small_config());
  const float values[] = {1, std::numeric_limits<float>::quiet_NaN()};
  try {
    broken.add("model.norm.weight", {2}, values, 2);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(error.message().find("model.norm.weight"), std::string::npos);
  }
  try {
    broken.weights(Dtype::kBFloat16);
    ADD_FAILURE() << "packed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  }
}

}  // namespace
}  // namespace slip
