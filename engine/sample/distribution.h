// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/random.h"

namespace slip {

struct SamplingParams {
  float temperature = 1.0F;           // 0 = greedy; else in (0, 2]
  float top_p = 1.0F;                 // (0, 1]
  std::int32_t top_k = 0;             // 0 = off
  std::optional<std::uint64_t> seed;  // given: coupled acceptance; else the server draws one and uses rejection
};

// A sparse probability vector: the support a transform left, ids ascending, probabilities normalised in float64.
struct Distribution {
  std::vector<std::int32_t> ids;
  std::vector<double> probabilities;
  double probability(std::int32_t id) const;  // 0 outside the support
};

// temperature → top-k → top-p → normalise. The one transform for p and q alike. Greedy gives one-hot at the argmax
// (lowest id among equals). `path` is the row's own committed tokens plus proposal path, for the transforms that depend
// on it.
void transform_logits(std::span<const float> logits, const SamplingParams& params, std::span<const std::int32_t> path,
                      Distribution& out);

std::int32_t sample_inverse_cdf(const Distribution& distribution, double u);                 // u in [0, 1)
std::int32_t sample_gumbel(const Distribution& distribution, const RandomAddress& address);  // argmax(log p + g)

// log softmax of raw logits (T = 1, no transform): the top `n` and any one token; accumulated in float64 in id order.
struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};
double log_normalizer(std::span<const float> logits);
void top_logprobs(std::span<const float> logits, double log_normalizer, std::int32_t n, std::vector<TokenLogprob>& out);

}  // namespace slip
