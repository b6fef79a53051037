// SPDX-License-Identifier: Apache-2.0
// Tested through the trainer, since LibTorch's headers stay out of tests.
#include "distill/trainer/draft_trainer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoints/safetensors.h"
#include "distill/trainer/trainer_state_file.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::make_batch;
using testing::small_config;

class TorchAverageTest : public testing::TrainerTest {};

TEST_F(TorchAverageTest, TheExportIsTheMovingAverageOfTheWeights) {
  const ModelConfig config = small_config();
  for (const double decay : {0.0, 0.6}) {
    TrainerOptions options;
    options.average_decay = decay;
    DraftTrainer trainer(config, 3, options);
    std::vector<float> average;
    std::size_t n = 0;
    for (int step = 0; step <= 30; ++step) {
      if (step > 0) trainer.step(make_batch(2, step));
      trainer.save(folder_ / "state");
      const auto floats = read_trainer_state(folder_ / "state", config).floats;
      n = floats.size() / TrainerState::kParts;
      if (step == 0) average.assign(floats.begin(), floats.begin() + static_cast<std::ptrdiff_t>(n));
      const double keep = step == 0 ? 0 : std::min(decay, step / (step + 9.0));
      for (std::size_t i = 0; i < n; ++i) {
        average[i] = static_cast<float>(keep * average[i] + (1 - keep) * floats[i]);
        ASSERT_NEAR(floats[3 * n + i], average[i], 1e-5) << "step " << step << ", weight " << i;
      }
    }
    const fs::path out = folder_ / ("out" + std::to_string(decay));
    fs::create_directory(out);
    trainer.export_draft(out, Dtype::kFloat32);
    const SafetensorsFile exported(out / "model.safetensors");
    const auto embedding = exported.tensors().at("model.embed_tokens.weight").bytes;
    for (std::size_t i = 0; i < embedding.size() / sizeof(float); ++i) {
      float value = 0;
      std::memcpy(&value, embedding.data() + i * sizeof(float), sizeof value);
      ASSERT_NEAR(value, average[i], 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace slip
