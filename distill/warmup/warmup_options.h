// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoints/model_config.h"
#include "common/tensor_view.h"
#include "distill/trainer/draft_trainer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// The shape of a new draft. Everything else (vocabulary, special ids, context, rotary base) is taken from the target.
struct DraftShape {
  std::int32_t hidden = 128;  // a multiple of heads; hidden / heads even
  std::int32_t layers = 2;
  std::int32_t ffn = 352;
  std::int32_t heads = 4;  // a multiple of kv_heads
  std::int32_t kv_heads = 2;
  bool tied = true;  // the output matrix is the embedding
  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

enum class AnswersFrom : std::uint8_t {
  kTarget,  // the target generates answers to the prompts; responses in the data are ignored
  kData,    // the target computes its distributions at the tokens of the given responses
};

struct WarmupOptions {
  std::filesystem::path target, out;
  std::filesystem::path chat_template;      // a Jinja file; empty: the target's own
  std::vector<std::filesystem::path> data;  // JSONL with `prompt` [and `response`]; each prompt is a user message
  std::filesystem::path draft;              // start from this folder's weights; empty: random weights of `shape`
  DraftShape shape;
  double share = 1.0;  // (0, 1]: share of each file's rows to use, from its start, rounded down
  AnswersFrom answers_from = AnswersFrom::kTarget;
  std::optional<float> temperature;  // for generated answers; absent: 0 and 0.8 alternately, since traffic has both
  std::int32_t max_tokens = 256;     // limit per answer
  std::int32_t concurrency = 16;     // answers generated concurrently
  TrainerOptions trainer{.learning_rate = 2e-3, .warmup_steps = 20};
  std::int64_t steps = 0;  // 0: until the held-out loss is flat
  std::int32_t batch = 8;  // answers per optimizer step
  std::uint64_t seed = 1;
  int threads = 1;
  Dtype dtype = Dtype::kBFloat16;                      // the target's, while it answers
  std::shared_ptr<kernels::cuda::DeviceQueue> device;  // on which the target answers; null: the CPU
  std::int64_t save_every_us = 30'000'000;             // longest loss after kill −9 or a power cut; 0: save each step
  bool resume = false;                                 // only resume an interrupted run; refuse to start a new one
  bool force = false;                                  // discard existing content of `out` and any interrupted work
  bool keep_work = false;                              // keep <out>.work, including the answers
};

// Checks the options before any work: values, a draft that cannot be trained or does not fit its target, and a device
// that cannot train. Error{kInvalidArgument} whose param() names the option. For the device: the errors and the
// condition of check_training_device().
void check_warmup_options(const WarmupOptions& options);

// The configuration of a new draft of `target` with this shape. Error{kInvalidArgument} whose param() names the option.
ModelConfig draft_config(const ModelConfig& target, const DraftShape& shape);

}  // namespace slip
