// SPDX-License-Identifier: Apache-2.0
// Tested through the trainer, since LibTorch's headers stay out of tests.
#include "distill/trainer/draft_trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distill/trainer/trainer_state_file.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

using testing::make_batch;
using testing::small_config;

class TorchAdamWTest : public testing::TrainerTest {};

TEST_F(TorchAdamWTest, AStepIsAdamW) {
  TrainerOptions options;
  options.max_grad_norm = 0;
  options.learning_rate = 1e-2;
  options.weight_decay = 0.1;
  const ModelConfig config = small_config();
  DraftTrainer trainer(config, 3, options);
  trainer.save(folder_ / "0");
  trainer.step(make_batch(2));
  trainer.save(folder_ / "1");
  const auto before = read_trainer_state(folder_ / "0", config).floats;
  const auto after = read_trainer_state(folder_ / "1", config).floats;
  const std::size_t n = before.size() / TrainerState::kParts;
  for (std::size_t i = 0; i < 97 * 32; i += 13) {  // the embedding decays, the norms do not
    const double g = after[n + i] / (1 - options.beta1);
    EXPECT_NEAR(after[2 * n + i], (1 - options.beta2) * g * g, 1e-9);
    // At the first step both bias corrections cancel: the update is lr · g / (|g| + ε).
    const double expected = before[i] * (1 - 1e-3) - 1e-2 * g / (std::abs(g) + 1e-8);
    EXPECT_NEAR(after[i], expected, 2e-6);
  }
}

}  // namespace
}  // namespace slip
