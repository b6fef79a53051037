// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/draft_trainer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/error.h"
#include "distill/trainer/cpu_draft.h"
#include "distill/trainer/learning_rate.h"
#include "distill/trainer/outlier_guard.h"
#include "distill/trainer/torch_average.h"
#include "distill/trainer/torch_device.h"
#include "distill/trainer/torch_draft.h"
#include "distill/trainer/torch_head.h"
#include "distill/trainer/torch_microbatch.h"
#include "distill/trainer/torch_optimizer.h"
#include "distill/trainer/trainer_state_file.h"
#include "kernels/matmul.h"

namespace slip {
namespace {

struct StepAbandoned {};

std::int64_t total_rows(const std::vector<Microbatch>& batches) {
  std::int64_t rows = 0;
  for (const Microbatch& batch : batches) rows += batch.rows();
  return rows;
}

// √Σ g² over all parameters, in double; not finite when any gradient is not.
double gradient_norm(const std::vector<NamedTensor>& parameters) {
  double squares = 0;
  for (const NamedTensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.value.grad();
    if (!gradient.defined()) continue;
    const double norm = at::norm(gradient).item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void zero_gradients(std::vector<NamedTensor>& parameters) {
  for (NamedTensor& parameter : parameters) {
    if (parameter.value.grad().defined()) {
      parameter.value.mutable_grad().zero_();
    } else {
      parameter.value.mutable_grad() = at::zeros_like(parameter.value.detach());
    }
  }
}

// The current addresses of weights and gradients; a gradient is null before the first step.
TrainedWeights weights_of(const TorchDraft& draft) {
  auto next = draft.parameters().begin();
  const auto take = [&] {
    const at::Tensor& value = (next++)->value;
    return TrainedWeights::Matrix{value.data_ptr<float>(),
                                  value.grad().defined() ? value.grad().data_ptr<float>() : nullptr};
  };
  TrainedWeights weights;
  weights.embedding = take();
  if (!draft.config().tied_embeddings) take();
  for (int l = 0; l < draft.config().n_layers; ++l) {
    TrainedWeights::Layer& layer = weights.layers.emplace_back();
    for (TrainedWeights::Matrix* matrix : {&layer.attention_norm, &layer.q, &layer.k, &layer.v, &layer.out,
                                           &layer.ffn_norm, &layer.gate, &layer.up, &layer.down}) {
      *matrix = take();
    }
  }
  weights.final_norm = take();
  return weights;
}

}  // namespace

struct TrainingPasses::State {
  // REQUIRES: a turn of `where`.
  State(const ModelConfig& draft, const TrainerOptions& options, const TorchDevice& where)
      : config(draft), device(where), head(draft, options, where) {
    if (where.is_cpu() && !options.by_autograd) layers.emplace(draft, options.products, options.threads);
  }

  ModelConfig config;
  TorchDevice device;
  TorchHead head;
  std::optional<CpuDraft> layers;  // if empty, TorchDraft runs them
};

TrainingPasses::TrainingPasses(std::unique_ptr<State> state) : state_(std::move(state)) {}

TrainingPasses::~TrainingPasses() = default;

std::size_t TrainingPasses::bytes() const {
  return state_->head.bytes() + (state_->layers ? state_->layers->bytes() : 0);
}

struct DraftTrainer::State {
  // REQUIRES: a turn of the passes' device.
  State(TorchDraft model, TrainerOptions trainer_options, std::shared_ptr<TrainingPasses> shared_passes)
      : options(trainer_options),
        passes(std::move(shared_passes)),
        draft(std::move(model)),
        optimizer(draft.parameters(), trainer_options),
        average(draft.parameters(), trainer_options.average_decay) {}

  // Sets the number of threads before `build`: LibTorch would otherwise start one per core to fill the first tensors.
  static std::unique_ptr<State> make(TrainerOptions options, std::shared_ptr<TrainingPasses> passes,
                                     const std::function<TorchDraft()>& build) {
    at::set_num_threads(options.threads);
    if (options.device != TrainingDevice::kCpu) options.products = Dtype::kFloat32;
    TorchDraft model = build();
    const bool fits = passes != nullptr && passes->state_->config.same_shape(model.config());
    const TorchDevice device = fits ? passes->state_->device : TorchDevice(options.device);
    const TorchDevice::Turn turn(device);
    model.move_to(device.get());
    if (!fits) {
      passes.reset(new TrainingPasses(std::make_unique<TrainingPasses::State>(model.config(), options, device)));
    }
    return std::make_unique<State>(std::move(model), options, std::move(passes));
  }

  // The number of threads is a per-thread setting of LibTorch, so each entry sets it.
  TorchDevice::Turn enter() const {
    at::set_num_threads(options.threads);
    return TorchDevice::Turn(passes->state_->device);
  }

  std::vector<Microbatch> plan(std::span<const ReplayRecord> batch) const {
    return plan_microbatches(batch, draft.config(), options.microbatch_tokens, options.skip_looked_up);
  }
  at::Tensor hidden(const PackedSequences& input, bool through_context, const PausePoint& pause = {});
  RowSums evaluate(const Microbatch& batch);
  RowSums add_gradients(const Microbatch& batch, double weight, const PausePoint& pause);
  std::vector<at::Tensor*> all_tensors();

  TrainerOptions options;
  std::shared_ptr<TrainingPasses> passes;
  TorchDraft draft;
  TorchOptimizer optimizer;
  TorchAverage average;
  OutlierGuard guard;
};

at::Tensor DraftTrainer::State::hidden(const PackedSequences& input, bool through_context, const PausePoint& pause) {
  std::optional<CpuDraft>& layers = passes->state_->layers;
  if (!layers) return draft.hidden(input, through_context);
  const std::span<const float> rows = layers->hidden(weights_of(draft), input, through_context, pause);
  const std::int64_t width = draft.config().hidden_size;
  return at::from_blob(const_cast<float*>(rows.data()), {std::ssize(rows) / width, width}, at::kFloat);
}

RowSums DraftTrainer::State::evaluate(const Microbatch& batch) {
  const at::NoGradGuard no_grad;
  return passes->state_->head.pass(hidden(batch.input, /*through_context=*/true), draft.output_weight().detach(),
                                   batch.targets, /*weight=*/1, nullptr);
}

RowSums DraftTrainer::State::add_gradients(const Microbatch& batch, double weight, const PausePoint& pause) {
  const at::Tensor rows = hidden(batch.input, options.through_prompts, pause);
  TorchHead::Backward slopes{at::empty_like(rows), {}};
  RowSums sums;
  {
    at::NoGradGuard no_grad;
    const at::Tensor& matrix = draft.output_weight();
    slopes.matrix_gradient = matrix.grad();
    sums = passes->state_->head.pass(rows.detach(), matrix.detach(), batch.targets, weight, &slopes, pause);
  }
  if (std::optional<CpuDraft>& layers = passes->state_->layers) {
    const auto n = static_cast<std::size_t>(slopes.gradient.numel());
    layers->backward(weights_of(draft), {slopes.gradient.data_ptr<float>(), n}, pause);
  } else {
    rows.backward(slopes.gradient);
  }
  return sums;
}

// Parameters, optimizer moments and averages, in the order of the state file.
std::vector<at::Tensor*> DraftTrainer::State::all_tensors() {
  std::vector<at::Tensor*> tensors;
  for (NamedTensor& parameter : draft.parameters()) tensors.push_back(&parameter.value);
  for (at::Tensor* moment : optimizer.moments()) tensors.push_back(moment);
  for (at::Tensor& mean : average.values()) tensors.push_back(&mean);
  return tensors;
}

OptimizerKind parse_optimizer(const std::string& name) {
  for (OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    if (name == optimizer_name(optimizer)) return optimizer;
  }
  throw Error(ErrorCode::kInvalidArgument, "unknown optimizer \"" + name + "\"", "choose one of adamw, muon",
              "optimizer");
}

const char* optimizer_name(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::kMuon ? "muon" : "adamw";
}

Dtype fastest_products() {
  const kernels::IsaClass isa = kernels::isa_class();
  const bool in_hardware = isa == kernels::IsaClass::kAvx512Bf16 || isa == kernels::IsaClass::kAmxBf16;
  return in_hardware ? Dtype::kBFloat16 : Dtype::kFloat32;
}

void check_trainable(const ModelConfig& draft) {
  const std::string key = draft.beyond_plain_llama();
  if (key.empty()) return;
  throw Error(ErrorCode::kUnsupported, "a draft that learns is a plain Llama: \"" + key + "\" asks for more",
              "serve it as it is with --no-learning, or choose another draft", key);
}

DraftTrainer::DraftTrainer(const std::filesystem::path& draft_folder, TrainerOptions options,
                           std::shared_ptr<TrainingPasses> passes)
    : state_(State::make(options, std::move(passes),
                         [&] { return TorchDraft(load_model_config(draft_folder), draft_folder); })) {}

DraftTrainer::DraftTrainer(const ModelConfig& config, std::uint64_t seed, TrainerOptions options)
    : state_(State::make(options, nullptr, [&] { return TorchDraft(config, seed); })) {}

DraftTrainer::~DraftTrainer() = default;

TrainStep DraftTrainer::step(std::span<const ReplayRecord> batch, const std::function<bool()>& between) {
  State& state = *state_;
  const auto turn = state.enter();
  TrainStep result;
  result.step = state.optimizer.steps();
  const std::vector<Microbatch> microbatches = state.plan(batch);
  const std::int64_t rows = total_rows(microbatches);
  result.skipped = rows == 0;
  if (result.skipped) return result;
  zero_gradients(state.draft.parameters());
  const PausePoint pause = [&between] {
    if (between && !between()) throw StepAbandoned();
  };
  RowSums sums;
  try {
    for (const Microbatch& microbatch : microbatches) {
      pause();
      const RowSums part = state.add_gradients(microbatch, 1.0 / static_cast<double>(rows), pause);
      sums.loss += part.loss;
      sums.greedy_hits += part.greedy_hits;
    }
  } catch (const StepAbandoned&) {
    result.skipped = true;
    return result;
  }
  result.rows = rows;
  result.loss = sums.loss / static_cast<double>(rows);
  result.alpha_greedy = static_cast<double>(sums.greedy_hits) / static_cast<double>(rows);
  result.grad_norm = gradient_norm(state.draft.parameters());
  result.skipped =
      !std::isfinite(result.loss) || !std::isfinite(result.grad_norm) || state.guard.is_outlier(result.loss);
  if (result.skipped) return result;
  const TrainerOptions& options = state.options;
  const double clip = options.max_grad_norm > 0 ? std::min(1.0, options.max_grad_norm / (result.grad_norm + 1e-12)) : 1;
  state.optimizer.update(clip, options.scale_by_loss ? loss_factor(options.loss.kind, result.loss) : 1);
  state.average.update(state.draft.parameters(), state.optimizer.steps());
  result.step = state.optimizer.steps();
  return result;
}

TrainStep DraftTrainer::evaluate(std::span<const ReplayRecord> batch) const {
  State& state = *state_;
  const auto turn = state.enter();
  RowSums sums;
  for (const Microbatch& microbatch : state.plan(batch)) {
    const RowSums part = state.evaluate(microbatch);
    sums.loss += part.loss;
    sums.rows += part.rows;
    sums.greedy_hits += part.greedy_hits;
  }
  TrainStep result;
  result.step = state.optimizer.steps();
  result.rows = sums.rows;
  result.skipped = true;
  if (sums.rows == 0) return result;
  result.loss = sums.loss / static_cast<double>(sums.rows);
  result.alpha_greedy = static_cast<double>(sums.greedy_hits) / static_cast<double>(sums.rows);
  return result;
}

std::int64_t DraftTrainer::steps() const {
  return state_->optimizer.steps();
}

const ModelConfig& DraftTrainer::config() const {
  return state_->draft.config();
}

std::vector<float> DraftTrainer::logits(std::span<const std::int32_t> tokens) const {
  const auto turn = state_->enter();
  at::NoGradGuard no_grad;
  PackedSequences input;
  input.tokens.assign(tokens.begin(), tokens.end());
  input.lengths = {static_cast<std::int64_t>(tokens.size())};
  input.wanted = input.lengths;
  const at::Tensor out =
      at::mm(state_->hidden(input, /*through_context=*/true), state_->draft.output_weight().t()).cpu().contiguous();
  return {out.data_ptr<float>(), out.data_ptr<float>() + out.numel()};
}

DraftExport DraftTrainer::exported(Dtype stored) const {
  const auto turn = state_->enter();
  ModelConfig config = state_->draft.config();
  config.stored_dtype = stored;
  DraftExport result(config);
  const std::vector<NamedTensor>& parameters = state_->draft.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const NamedTensor& parameter = parameters[p];
    if (!at::isfinite(parameter.value.detach().sum()).item<bool>()) {
      throw Error(ErrorCode::kDataLoss, "weight \"" + parameter.name + "\" of the draft is not finite",
                  "the training run diverged; lower the learning rate");
    }
    const at::Tensor mean = state_->average.values()[p].cpu();
    const auto sizes = parameter.value.sizes();
    result.add(parameter.name, {sizes.begin(), sizes.end()}, mean.data_ptr<float>(),
               static_cast<std::size_t>(mean.numel()));
  }
  return result;
}

void DraftTrainer::export_draft(const std::filesystem::path& folder, Dtype dtype) const {
  exported(dtype).write(folder);
}

std::shared_ptr<const ModelWeights> DraftTrainer::weights(Dtype dtype) const {
  return exported().weights(dtype);
}

std::size_t DraftTrainer::bytes() const {
  std::size_t total = state_->optimizer.bytes();
  for (const NamedTensor& parameter : state_->draft.parameters()) {
    total += parameter.value.nbytes();
    if (parameter.value.grad().defined()) total += parameter.value.grad().nbytes();
  }
  for (const at::Tensor& mean : state_->average.values()) total += mean.nbytes();
  return total;
}

const std::shared_ptr<TrainingPasses>& DraftTrainer::passes() const {
  return state_->passes;
}

void DraftTrainer::save(const std::filesystem::path& file) const {
  const auto turn = state_->enter();
  TrainerState saved;
  saved.steps = static_cast<std::uint64_t>(state_->optimizer.steps());
  saved.recent_losses.assign(state_->guard.values().begin(), state_->guard.values().end());
  saved.floats.reserve(TrainerState::n_floats(config(), state_->options.optimizer));
  for (const at::Tensor* tensor : state_->all_tensors()) {
    const at::Tensor host = tensor->detach().cpu();
    const float* values = host.data_ptr<float>();
    saved.floats.insert(saved.floats.end(), values, values + host.numel());
  }
  write_trainer_state(file, config(), saved, state_->options.optimizer);
}

void DraftTrainer::load(const std::filesystem::path& file) {
  TrainerState saved = read_trainer_state(file, config(), state_->options.optimizer);
  const auto turn = state_->enter();
  const at::NoGradGuard no_grad;
  float* values = saved.floats.data();
  for (at::Tensor* tensor : state_->all_tensors()) {
    tensor->copy_(at::from_blob(values, tensor->sizes(), at::kFloat));
    values += tensor->numel();
  }
  state_->optimizer.set_steps(static_cast<std::int64_t>(saved.steps));
  state_->guard.restore({saved.recent_losses.begin(), saved.recent_losses.end()});
}

}  // namespace slip
