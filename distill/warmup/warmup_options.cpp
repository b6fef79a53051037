// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

void check_options(const WarmupOptions& options) {
  auto require = [](bool good, const char* what, const char* param) {
    if (!good) throw Error(ErrorCode::kInvalidArgument, what, {}, param);
  };
  const auto is_empty = [](const auto& path) { return path.empty(); };
  require(std::none_of(options.data.begin(), options.data.end(), is_empty), "a file name in --data is empty", "data");
  require(!options.data.empty(), "no data to learn from", "data");
  require(options.share > 0 && options.share <= 1, "share must be above 0 and at most 1", "share");
  require(options.steps >= 0, "steps must not be negative", "steps");
  require(options.batch > 0 && options.batch <= 4096, "batch must be between 1 and 4096", "batch");
  require(options.max_tokens > 0, "max_tokens must be at least 1", "max_tokens");
  require(options.concurrency > 0 && options.concurrency <= 256, "concurrency must be between 1 and 256",
          "concurrency");
  require(options.threads > 0, "threads must be at least 1", "threads");
  require(std::isfinite(options.trainer.learning_rate) && options.trainer.learning_rate > 0, "lr must be above 0",
          "lr");
  require(options.trainer.loss.beta > 0 && options.trainer.loss.beta < 1, "beta must be between 0 and 1", "beta");
  require(!options.temperature || (*options.temperature >= 0 && *options.temperature <= 2),
          "temperature must be between 0 and 2", "temperature");
}

// An existing draft must have the target's vocabulary.
void check_draft(const WarmupOptions& options) {
  const ModelConfig target = load_model_config(options.target);
  if (options.draft.empty()) {
    draft_config(target, options.shape);
    return;
  }
  const ModelConfig draft = load_model_config(options.draft);
  check_trainable(draft);
  if (draft.vocab_size != target.vocab_size) {
    throw Error(ErrorCode::kInvalidArgument,
                "the draft has " + std::to_string(draft.vocab_size) + " tokens, its target " +
                    std::to_string(target.vocab_size),
                "begin a new draft with --draft-config", "draft");
  }
}

}  // namespace

void check_warmup_options(const WarmupOptions& options) {
  check_options(options);
  check_draft(options);
  check_training_device(options.trainer.device);
}

ModelConfig draft_config(const ModelConfig& target, const DraftShape& shape) {
  auto require = [](bool good, const std::string& what, const char* param) {
    if (!good) throw Error(ErrorCode::kInvalidArgument, "the draft's " + what, {}, param);
  };
  require(shape.layers >= 1 && shape.layers <= 1024, "layers must be between 1 and 1024", "layers");
  require(shape.heads >= 1 && shape.hidden >= 1 && shape.hidden % shape.heads == 0,
          "hidden must be a multiple of heads", "hidden");
  require(shape.hidden / shape.heads % 2 == 0, "head size (hidden / heads) must be even", "heads");
  require(shape.kv_heads >= 1 && shape.heads % shape.kv_heads == 0, "heads must be a multiple of kv_heads", "kv_heads");
  require(shape.ffn >= 1, "ffn must be at least 1", "ffn");
  // Copies vocabulary, context, epsilon and rotary base from the target. A draft is a plain Llama whatever the target's
  // architecture.
  ModelConfig config = target;
  const ModelConfig plain;
  config.architecture = plain.architecture;
  config.rope_scaling = plain.rope_scaling;
  config.qkv_bias = config.attention_out_bias = config.mlp_bias = config.qk_norm = false;
  config.windows.clear();
  config.hidden_size = shape.hidden;
  config.n_layers = shape.layers;
  config.intermediate_size = shape.ffn;
  config.n_heads = shape.heads;
  config.n_kv_heads = shape.kv_heads;
  config.head_dim = shape.hidden / shape.heads;
  config.tied_embeddings = shape.tied;
  return config;
}

}  // namespace slip
