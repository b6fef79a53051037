// SPDX-License-Identifier: Apache-2.0
// A trainer on a device learns what one on the CPU learns, and its state and weights come back to the host.
#include <cmath>

#include "common/error.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

using testing::make_batch;
using testing::relative_difference;
using testing::small_config;

class GpuTrainer : public testing::TrainerTest {
 protected:
  void SetUp() override {
    try {
      check_training_device(TrainingDevice::kCuda);
    } catch (const Error& error) {
      GTEST_SKIP() << error.message();
    }
  }
  TrainerOptions options(TrainingDevice device) const {
    TrainerOptions options;
    options.learning_rate = 1e-2;
    options.weight_decay = 0.01;
    options.average_decay = 0.9;
    options.device = device;
    return options;
  }
};

TEST_F(GpuTrainer, LearnsAsTheCpuDoes) {
  for (const char* loss : {"kl", "rkl", "jsd", "tv"}) {
    for (const bool tied : {false, true}) {
      TrainerOptions on_cpu = options(TrainingDevice::kCpu), on_device = options(TrainingDevice::kCuda);
      on_cpu.loss.kind = on_device.loss.kind = parse_loss(loss);
      DraftTrainer host(small_config(tied), 1, on_cpu), device(small_config(tied), 1, on_device);
      for (int i = 0; i < 5; ++i) {
        const auto batch = make_batch(3, 10 * static_cast<std::uint64_t>(i));
        const TrainStep expected = host.step(batch), got = device.step(batch);
        EXPECT_EQ(got.rows, expected.rows);
        EXPECT_NEAR(got.loss, expected.loss, 1e-3 * std::abs(expected.loss)) << loss << ", step " << i;
        EXPECT_NEAR(got.grad_norm, expected.grad_norm, 1e-2 * expected.grad_norm) << loss << ", step " << i;
      }
      const std::vector<std::int32_t> tokens = {3, 14, 15, 92, 65};
      EXPECT_LT(relative_difference(host.logits(tokens), device.logits(tokens)), 2e-2) << loss;
    }
  }
}

TEST_F(GpuTrainer, StateGoesToTheHostAndBackAsItIs) {
  DraftTrainer device(small_config(), 1, options(TrainingDevice::kCuda));
  for (int i = 0; i < 3; ++i) device.step(make_batch(2));
  const std::string saved = state_of(device);
  device.save(folder_ / "state");
  DraftTrainer host(small_config(), 2, options(TrainingDevice::kCpu));
  DraftTrainer other(small_config(), 3, options(TrainingDevice::kCuda));
  host.load(folder_ / "state");
  other.load(folder_ / "state");
  EXPECT_EQ(state_of(host), saved);
  EXPECT_EQ(state_of(other), saved);
}

TEST_F(GpuTrainer, PublishesTheAverageItHolds) {
  DraftTrainer device(small_config(), 1, options(TrainingDevice::kCuda));
  for (int i = 0; i < 3; ++i) device.step(make_batch(2));
  device.save(folder_ / "state");
  DraftTrainer host(small_config(), 2, options(TrainingDevice::kCpu));
  host.load(folder_ / "state");
  const auto exported = [&](const DraftTrainer& trainer, const char* name) {
    std::filesystem::create_directories(folder_ / name);
    trainer.export_draft(folder_ / name);
    std::ifstream file(folder_ / name / "model.safetensors", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(exported(device, "device"), exported(host, "host"));
}

}  // namespace
}  // namespace slip
