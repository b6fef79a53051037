// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "distill/trainer/draft_trainer.h"
#include "engine/models/transformer.h"
#include "tests/common/damage.h"
#include "tests/distill/sample_records.h"

namespace slip::testing {

inline constexpr std::int32_t kTinyVocab = 64;

// A draft that can be trained in seconds: one layer, 13k parameters.
inline ModelConfig tiny_config() {
  ModelConfig config;
  config.vocab_size = kTinyVocab;
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.n_layers = 1;
  config.n_heads = 2;
  config.n_kv_heads = 1;
  config.head_dim = 16;
  config.max_positions = 256;
  config.tied_embeddings = true;
  return config;
}

inline std::shared_ptr<const ModelWeights> tiny_weights(std::uint64_t seed, Dtype dtype = Dtype::kFloat32) {
  const ScratchFolder folder;
  DraftTrainer(tiny_config(), seed, {}).export_draft(folder.path());
  return ModelWeights::load(folder.path(), dtype, /*check_finite=*/true);
}

// A tiny draft that computes no logit that is a number: its last norm is NaN.
inline std::shared_ptr<const ModelWeights> broken_weights() {
  const ScratchFolder folder;
  DraftTrainer(tiny_config(), 1, {}).export_draft(folder.path());
  std::string norm;  // model.norm.weight, in bfloat16
  for (std::int32_t i = 0; i < tiny_config().hidden_size; ++i) norm += "\xc0\x7f";
  overwrite(folder.path() / "model.safetensors", -std::ssize(norm), norm);
  return ModelWeights::load(folder.path(), Dtype::kFloat32, /*check_finite=*/false);
}

// The next token of a deterministic "target" after `token`: a fixed function of it.
inline std::int32_t next_token(std::int32_t token) {
  return (token * 5 + 3) % kTinyVocab;
}

// A request that this target answered greedily, with arbitrary prompt tokens.
inline ReplayRecord answered(std::uint64_t id, int prompt = 4, int answer = 24) {
  ReplayRecord record = make_record(id, "sql", prompt, 0, kTinyVocab);
  for (int i = 0; i < answer; ++i) {
    const std::int32_t token = next_token(record.tokens.back());
    record.tokens.push_back(token);
    TopK top = falling_top_k(token, kTinyVocab, 8);
    top.logprobs.assign(8, -6.0F);
    top.logprobs[0] = -0.05F;
    top.log_tail = -4.0F;
    record.target.push_back(top);
  }
  return record;
}

}  // namespace slip::testing
