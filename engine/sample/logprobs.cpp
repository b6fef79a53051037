// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "common/error.h"
#include "engine/sample/distribution.h"
#include "engine/sample/vocabulary_math.h"

namespace slip {

namespace {

// A bound below the `wanted` largest values: that many blocks have a maximum no smaller. `maxima` gets every whole
// block's.
float lower_bound_of_head(std::span<const float> logits, std::size_t wanted, std::vector<float>& maxima) {
  thread_local std::vector<float> ranked;
  maxima.resize(logits.size() / kMaximaBlock);
  block_maxima(logits, maxima);
  if (wanted > maxima.size()) return -std::numeric_limits<float>::infinity();
  ranked = maxima;
  const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(ranked.begin(), last, ranked.end(), std::greater<>());
  return *last;
}

}  // namespace

double log_normalizer(std::span<const float> logits) {
  SLIP_CHECK(!logits.empty(), "a vocabulary has at least one token");
  const double largest = largest_of(logits);
  return largest + std::log(sum_exp_differences(logits, largest));
}

void top_logprobs(std::span<const float> logits, double log_normalizer, std::int32_t n,
                  std::vector<TokenLogprob>& out) {
  const auto ranks_before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  out.clear();
  const std::size_t wanted = std::min(logits.size(), static_cast<std::size_t>(std::max(n, 0)));
  if (wanted == 0) return;
  // A heap with the last-ranked on top, holding raw logits until the end: ranks must not be lost to the rounding of the
  // subtraction.
  const auto consider = [&](std::size_t i) {
    if (out.size() == wanted && !(logits[i] > out.front().logprob)) return;
    if (out.size() == wanted) {
      std::pop_heap(out.begin(), out.end(), ranks_before);
      out.pop_back();
    }
    out.push_back({static_cast<std::int32_t>(i), logits[i]});
    std::push_heap(out.begin(), out.end(), ranks_before);
  };
  // Most blocks hold nothing that ranks, which one vector pass over the row tells.
  thread_local std::vector<float> maxima;
  const float bound = lower_bound_of_head(logits, wanted, maxima);
  for (std::size_t begin = 0; begin < logits.size(); begin += kMaximaBlock) {
    const std::size_t block = begin / kMaximaBlock;
    if (block < maxima.size() && maxima[block] < bound) continue;
    for (std::size_t i = begin; i < std::min(begin + kMaximaBlock, logits.size()); ++i) {
      if (!(logits[i] < bound)) consider(i);
    }
  }
  std::sort_heap(out.begin(), out.end(), ranks_before);
  for (TokenLogprob& entry : out) entry.logprob = static_cast<float>(entry.logprob - log_normalizer);
}

}  // namespace slip
