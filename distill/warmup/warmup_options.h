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

// The shape of a new draft; everything else (vocabulary, special ids, context, rotary base) is its target's.
struct DraftShape {
  std::int32_t hidden = 128;  // a multiple of heads; hidden / heads even
  std::int32_t layers = 2;    //
  std::int32_t ffn = 352;     //
  std::int32_t heads = 4;     // a multiple of kv_heads
  std::int32_t kv_heads = 2;  //
  bool tied = true;           // the output matrix is the embedding
  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

enum class AnswersFrom : std::uint8_t {
  kTarget,  // the target answers the prompts; responses in the data are not read
  kData,    // the target is shown the given responses and says what it would have put at each token
};

struct WarmupOptions {
  std::filesystem::path target, out;
  std::filesystem::path chat_template;      // a Jinja file; empty: the target's own
  std::vector<std::filesystem::path> data;  // JSONL with `prompt` [and `response`]; each is a user's message
  std::filesystem::path draft;              // go on from this folder's weights; empty: random weights of `shape`
  DraftShape shape;
  double share = 1.0;  // (0, 1]: the first rows of each file, rounded down
  AnswersFrom answers_from = AnswersFrom::kTarget;
  std::optional<float> temperature;  // of the written answers; absent: 0 and 0.8 in turn, as a draft meets both
  std::int32_t max_tokens = 256;     // of one answer
  std::int32_t concurrency = 16;     // answers written at once
  TrainerOptions trainer{.learning_rate = 2e-3, .warmup_steps = 20};
  std::int64_t steps = 0;  // 0: until the held-out loss is flat
  std::int32_t batch = 8;  // answers per optimizer step
  std::uint64_t seed = 1;
  int threads = 1;
  Dtype dtype = Dtype::kBFloat16;                      // the target's, while it answers
  std::shared_ptr<kernels::cuda::DeviceQueue> device;  // where it answers; null: the CPU
  std::int64_t save_every_us = 30'000'000;             // what kill −9 or a power cut costs; 0: after every step
  bool resume = false;                                 // refuse to begin anew
  bool force = false;                                  // discard what stands at `out` and any interrupted work
  bool keep_work = false;                              // leave <out>.work, answers included
};

// What can be known to be wrong before anything begins: values, a draft that cannot learn or is not its target's, and a
// device that cannot train. Error{kInvalidArgument} whose param() names the option; the last as
// check_training_device(), and with its condition.
void check_warmup_options(const WarmupOptions& options);

// The shape that a new draft of `target` has. Error{kInvalidArgument} whose param() names the option.
ModelConfig draft_config(const ModelConfig& target, const DraftShape& shape);

}  // namespace slip
