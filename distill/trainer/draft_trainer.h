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

// Where a draft's masters, moments and averages live and its steps run.
enum class TrainingDevice : std::uint8_t {
  kCpu,
  kCuda,  // the first CUDA device, on a stream of low priority; what is published or saved is copied to the host
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
  double learning_rate = 2e-3;         // AdamW's
  double matrix_learning_rate = 0.02;  // Muon's: about the largest singular value of one step's change
  double weight_decay = 0.0;
  double beta1 = 0.9, beta2 = 0.95;
  double max_grad_norm = 1.0;
  std::int64_t warmup_steps = 0;  // linear from 0
  std::int64_t total_steps = 0;   // > 0: cosine to 10 %; 0: constant (online learning has no end)
  // Rates times loss_factor() of the batch's loss before the step: a new topic takes whole steps, a draft that is near
  // the target already is not thrown back by them.
  bool scale_by_loss = false;
  bool through_prompts = true;  // false: prompts are constants above the first layer (TorchDraft::hidden)
  // Rows whose token a prompt lookup is confident of teach nothing: serving proposes those tokens anyway. Of code's
  // recorded answers these are .6 of the rows; without them α is .01 to .02 higher after as many steps (bench/ablate).
  bool skip_looked_up = false;
  double average_decay = 0;               // of the exported weights' moving average over steps; 0: the last step's
  std::int32_t microbatch_tokens = 2048;  // bounds one unit of work, and so how long serving can be delayed
  int threads = 1;                        // ATen intra-op threads
  // Of matrices, on a CPU: kFloat32, or kBFloat16 as in mixed-precision training. Weights, gradients, moments and
  // losses are float32 in any case.
  Dtype products = Dtype::kFloat32;
  // On a CPU: the layers' passes by LibTorch's differentiation, in float32, as a device makes them, and not by
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
  bool skipped = false;  // loss or gradient not finite, a z-score outlier, abandoned or no rows: nothing was changed
};

// kBFloat16 on a CPU with instructions for it, else kFloat32.
Dtype fastest_products();

// Error{kUnsupported} naming the config.json key that makes a draft more than a plain Llama, which is what we can
// train.
void check_trainable(const ModelConfig& draft);

// Error{kUnsupported | kUnavailable} naming learning.device where a trainer could not be there. kCuda: REQUIRES that
// nothing has asked LibTorch for a device yet, since it looks once.
void check_training_device(TrainingDevice device);

// A trainer of one draft: float32 masters and an optimizer, by LibTorch, whose types do not show. Threads: one owner.
class DraftTrainer {
 public:
  // Starts from a Hugging Face folder's weights …
  DraftTrainer(const std::filesystem::path& draft_folder, TrainerOptions options);
  // … or from random ones (warm-up of a new draft; `seed` fixes them).
  DraftTrainer(const ModelConfig& config, std::uint64_t seed, TrainerOptions options);
  ~DraftTrainer();

  // One optimizer step over the batch, in microbatches; `between` is asked before each and may sleep (the governor).
  // Returns false from `between` to abandon the step (shutdown): nothing is changed. Tokens beyond the draft's context
  // are left out. Error{kDataLoss} when a record's tokens are not the draft's.
  TrainStep step(std::span<const ReplayRecord> batch, const std::function<bool()>& between = {});
  // Loss and α of the weights as they are; changes nothing.
  TrainStep evaluate(std::span<const ReplayRecord> batch) const;
  std::int64_t steps() const;

  // The averaged weights as they are now, frozen and in memory. Error{kDataLoss} when a weight is not finite.
  DraftExport exported(Dtype stored = Dtype::kBFloat16) const;
  // exported(), packed for serving in `dtype`: the same bits as export_draft() and ModelWeights::load().
  std::shared_ptr<const ModelWeights> weights(Dtype dtype) const;
  // exported(), written: config.json and model.safetensors into an existing empty folder. Error{kDataLoss, kIo}.
  void export_draft(const std::filesystem::path& folder, Dtype dtype = Dtype::kBFloat16) const;
  // [n, vocab] of one sequence, row-major.
  std::vector<float> logits(std::span<const std::int32_t> tokens) const;
  // float32 masters, optimizer moments and averages, atomically replaced; load() gives back exactly the same state.
  // Fail points `optimizer.*`. load: Error{kDataLoss} when the file is torn, of another shape, of another optimizer or
  // of an older format; the state is unchanged then.
  void save(const std::filesystem::path& file) const;
  void load(const std::filesystem::path& file);
  const ModelConfig& config() const;
  // Of all that lives as long as the trainer: masters, gradients, moments, averages, and the buffers of its passes,
  // which grow to the largest microbatch. On a device, what a step needs besides is released within it.
  std::size_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
