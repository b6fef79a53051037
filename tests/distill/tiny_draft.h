// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "distill/trainer/draft_trainer.h"
#include "engine/models/transformer.h"
#include "tests/checkpoints/tiny_config.h"
#include "tests/distill/sample_records.h"

namespace slip::testing {

inline std::shared_ptr<const ModelWeights> tiny_weights(std::uint64_t seed, Dtype dtype = Dtype::kFloat32) {
  return DraftTrainer(tiny_config(), seed, {}).weights(dtype);
}

// A tiny draft that computes no logit that is a number: its last norm is NaN.
inline std::shared_ptr<const ModelWeights> broken_weights() {
  const auto weights = std::const_pointer_cast<ModelWeights>(tiny_weights(1));
  std::fill(weights->final_norm.begin(), weights->final_norm.end(), std::numeric_limits<float>::quiet_NaN());
  return weights;
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
