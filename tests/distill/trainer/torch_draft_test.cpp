// SPDX-License-Identifier: Apache-2.0
// Tested through the trainer, since LibTorch's headers stay out of tests.
#include "distill/trainer/draft_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "distill/trainer/trainer_state_file.h"
#include "engine/models/transformer.h"
#include "engine/sampling/random.h"
#include "tests/distill/trainer/trainer_fixture.h"
#include "tests/engine/models/plain_decode.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::learnable_record;
using testing::make_batch;
using testing::relative_difference;
using testing::small_config;

class TorchDraftTest : public testing::TrainerTest {};

// Logits of a whole sequence from the serving forward pass in float32.
std::vector<float> served_logits(const fs::path& folder, const std::vector<std::int32_t>& tokens) {
  kernels::ThreadPool pool(1);
  const auto n = static_cast<std::int32_t>(tokens.size());
  LocalWorker worker(ModelWeights::load(folder, Dtype::kFloat32), n, n, n / PagePool::kPageTokens + 1, pool);
  return testing::PlainSequence(worker).feed_at_once(tokens, n);
}

TEST_F(TorchDraftTest, SaysWhatTheServedModelSays) {
  for (const bool tied : {true, false}) {
    DraftTrainer trainer(small_config(tied), 5, {});
    for (int i = 0; i < 5; ++i) trainer.step(make_batch(3));
    const std::vector<std::int32_t> tokens = learnable_record(9, 50, 0).tokens;
    trainer.export_draft(folder_, Dtype::kFloat32);
    EXPECT_LT(relative_difference(trainer.logits(tokens), served_logits(folder_, tokens)), 1e-4);
    const DraftTrainer again(folder_, {});
    EXPECT_EQ(again.logits(tokens), trainer.logits(tokens)) << "float32 goes to disk and back whole";
    trainer.export_draft(folder_);
    const DraftTrainer rounded(folder_, {});
    EXPECT_LT(relative_difference(rounded.logits(tokens), served_logits(folder_, tokens)), 1e-4);
    EXPECT_LT(relative_difference(rounded.logits(tokens), trainer.logits(tokens)), 2e-2) << "bfloat16 keeps 8 bits";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

// The first moment after one unclipped step is (1 − β1) · gradient: compared with central differences of the loss.
double worst_gradient_error(const fs::path& folder, const ModelConfig& config, const std::vector<ReplayRecord>& batch,
                            double planted_factor, bool through_prompts = true) {
  TrainerOptions options;
  options.through_prompts = through_prompts;
  options.max_grad_norm = 0;
  options.microbatch_tokens = 20;  // several microbatches
  DraftTrainer trainer(config, 3, options);
  trainer.save(folder / "before");
  trainer.step(batch);
  trainer.save(folder / "after");
  const TrainerState before = read_trainer_state(folder / "before", config);
  const TrainerState after = read_trainer_state(folder / "after", config);
  const std::size_t n = before.floats.size() / TrainerState::kParts;
  double worst = 0;
  double largest = 0;
  for (std::uint32_t i = 0; i < 80; ++i) {
    const auto at = static_cast<std::size_t>(uniform({77, 0, i}, RandomPurpose::kDraft) * static_cast<double>(n));
    double loss[2];
    for (int side : {0, 1}) {
      TrainerState moved = before;
      moved.floats[at] += side == 0 ? 4e-3F : -4e-3F;
      write_trainer_state(folder / "moved", config, moved);
      trainer.load(folder / "moved");
      loss[side] = trainer.evaluate(batch).loss;
    }
    const double slope = (loss[0] - loss[1]) / 8e-3;
    const double gradient = planted_factor * after.floats[n + at] / (1 - options.beta1);
    largest = std::max(largest, std::abs(slope));
    worst = std::max(worst, std::abs(slope - gradient));
  }
  return worst / largest;
}

TEST_F(TorchDraftTest, GradientOfTheWholeModelEqualsCentralDifferences) {
  EXPECT_LT(worst_gradient_error(folder_, small_config(true), make_batch(3), 1.0), 0.02);
  EXPECT_LT(worst_gradient_error(folder_, small_config(false), make_batch(3), 1.0), 0.02);
}

// The relative difference between the logits after an optimizer step on one record with and without gradients through
// its prompt.
double moved_apart(ModelConfig config, int layers, int prompt) {
  config.n_layers = layers;
  std::vector<float> after[2];
  for (const bool through : {false, true}) {
    TrainerOptions options;
    options.through_prompts = through;
    DraftTrainer trainer(config, 3, options);
    const TrainStep step = trainer.step(std::vector{learnable_record(4, prompt, 12)});
    EXPECT_FALSE(step.skipped);
    after[through ? 1 : 0] = trainer.logits(learnable_record(9, 30, 0).tokens);
  }
  return relative_difference(after[0], after[1]);
}

TEST_F(TorchDraftTest, PromptsAreConstantsAboveTheFirstLayerWhereAsked) {
  // The weights that compute a prompt's keys and values still get gradients; with one layer there are no others.
  EXPECT_LT(moved_apart(small_config(), 1, 20), 1e-5);
  EXPECT_LT(moved_apart(small_config(), 2, 1), 1e-5) << "nothing stands before the wanted rows";
  EXPECT_GT(moved_apart(small_config(), 2, 20), 1e-3);
  EXPECT_GT(worst_gradient_error(folder_, small_config(), make_batch(3), 1.0, /*through_prompts=*/false), 1e-3);
}

TEST_F(TorchDraftTest, NegativeAGradientOffByATenthIsCaught) {
  EXPECT_GT(worst_gradient_error(folder_, small_config(true), make_batch(3), 1.1), 0.05);
}

}  // namespace
}  // namespace slip
