// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/model_config.h"
#include "distill/replay/replay_record.h"
#include "distill/trainer/draft_export.h"
#include "distill/trainer/loss.h"

namespace slip {

// The device that holds a draft's master weights, moments and averages, and runs its steps.
enum class TrainingDevice : std::uint8_t {
  kCpu,
  kCuda,  // the first CUDA device, on a low-priority stream; published or saved data is copied to the host
};

enum class OptimizerKind : std::uint8_t {
  kAdamW,
  kMuon,  // for the layers' matrices; AdamW for embedding, output matrix and norms
};
OptimizerKind parse_optimizer(const std::string& name);  // "adamw", "muon"; Error{kInvalidArgument} listing them
const char* optimizer_name(OptimizerKind optimizer);

struct TrainerOptions {
  LossOptions loss;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double learning_rate = 2e-3;         // for AdamW
  double matrix_learning_rate = 0.02;  // for Muon: about the largest singular value of one step's change
  double weight_decay = 0.0;
  double beta1 = 0.9, beta2 = 0.95;
  double max_grad_norm = 1.0;
  std::int64_t warmup_steps = 0;  // linear from 0
  std::int64_t total_steps = 0;   // > 0: cosine to 10 %; 0: constant (online learning has no end)
  // Multiplies the rates by loss_factor() of the batch's loss before the step. So a new topic takes full steps, and a
  // draft that is already near the target does not get worse by them.
  bool scale_by_loss = false;
  bool through_prompts = true;  // false: no gradient through prompt rows above the first layer (TorchDraft::hidden)
  // Leaves rows out of the loss whose token a prompt lookup is confident of, since serving proposes those tokens
  // anyway. In code's recorded answers these are .6 of the rows; without them α is .01 to .02 higher after as many
  // steps (bench/ablate).
  bool skip_looked_up = false;
  double average_decay = 0;               // decay of the exported moving average of weights; 0: the last step's weights
  std::int32_t microbatch_tokens = 2048;  // bounds the memory of a pass
  int threads = 1;                        // ATen intra-op threads
  // Dtype of matrix products on a CPU: kFloat32, or kBFloat16 as in mixed-precision training. Weights, gradients,
  // moments and losses are always float32.
  Dtype products = Dtype::kFloat32;
  // On a CPU: run the layers by LibTorch's automatic differentiation in float32, as on a device, instead of by
  // CpuDraft.
  bool by_autograd = false;
  TrainingDevice device = TrainingDevice::kCpu;
};

struct TrainStep {
  std::int64_t step = 0;
  double loss = 0;          // mean over target rows, nats
  double alpha_greedy = 0;  // share of rows where argmax q = argmax p, before this step
  double grad_norm = 0;
  std::int64_t rows = 0;
  bool skipped = false;  // not finite, a z-score outlier, abandoned or no rows: nothing was changed
};

// kBFloat16 on a CPU with instructions for it, else kFloat32.
Dtype fastest_products();

// Checks that a draft is a plain Llama, the only architecture that we can train. Error{kUnsupported} naming the
// config.json key that differs.
void check_trainable(const ModelConfig& draft);

// Checks that a trainer can run on `device`. Error{kUnsupported | kUnavailable} naming learning.device. kCuda: REQUIRES
// that nothing has asked LibTorch for a device before, since LibTorch detects devices only once.
void check_training_device(TrainingDevice device);

// The forward and backward passes of trainers, with their threads and with buffers that grow to the largest microbatch.
// The buffers hold nothing between two steps, so all trainers of one thread can share them. Made by the first of these.
class TrainingPasses {
 public:
  ~TrainingPasses();
  std::size_t bytes() const;  // of all buffers; on a device, of those that stay between steps

 private:
  friend class DraftTrainer;
  struct State;
  explicit TrainingPasses(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A trainer of one draft: float32 master weights and an optimizer. LibTorch's types stay hidden. Threads: one owner.
class DraftTrainer {
 public:
  // Starts from a Hugging Face folder's weights …
  DraftTrainer(const std::filesystem::path& draft_folder, TrainerOptions options)
      : DraftTrainer(draft_folder, options, nullptr) {}
  // … with the passes of another trainer, if that draft has the same shape. REQUIRES: the same options and thread.
  DraftTrainer(const std::filesystem::path& draft_folder, TrainerOptions options,
               std::shared_ptr<TrainingPasses> passes);
  // … or from random ones (warm-up of a new draft; `seed` fixes them).
  DraftTrainer(const ModelConfig& config, std::uint64_t seed, TrainerOptions options);
  ~DraftTrainer();

  // One optimizer step over the batch, in microbatches. `between` is called between two products, a few milliseconds
  // apart on a CPU, and may sleep (the governor). If it returns false the step is abandoned and nothing is changed.
  // Tokens beyond the draft's context are left out. Error{kDataLoss} when a record's tokens are not the draft's.
  TrainStep step(std::span<const ReplayRecord> batch, const std::function<bool()>& between = {});
  // Loss and α of the weights as they are; changes nothing.
  TrainStep evaluate(std::span<const ReplayRecord> batch) const;
  std::int64_t steps() const;

  // A frozen in-memory copy of the current averaged weights. Error{kDataLoss} when a weight is not finite.
  DraftExport exported(Dtype stored = Dtype::kBFloat16) const;
  // exported(), packed for serving in `dtype`: bit-identical to export_draft() and ModelWeights::load().
  std::shared_ptr<const ModelWeights> weights(Dtype dtype) const;
  // exported(), written: config.json and model.safetensors into an existing empty folder. Error{kDataLoss, kIo}.
  void export_draft(const std::filesystem::path& folder, Dtype dtype = Dtype::kBFloat16) const;
  // The logits [n, vocab] of one sequence, row-major.
  std::vector<float> logits(std::span<const std::int32_t> tokens) const;
  // save() writes float32 master weights, optimizer moments and averages, and replaces the file atomically; load()
  // restores exactly the same state. Fail points `optimizer.*`. load: Error{kDataLoss} when the file is torn, of
  // another shape, of another optimizer or of an older format; the state is then unchanged.
  void save(const std::filesystem::path& file) const;
  void load(const std::filesystem::path& file);
  const ModelConfig& config() const;
  // Memory that lives as long as the trainer, without its passes': master weights, gradients, moments, averages, and
  // the optimizer's buffers. On a device, a step releases its other memory itself.
  std::size_t bytes() const;
  const std::shared_ptr<TrainingPasses>& passes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
