// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "engine/sample/distribution.h"
#include "engine/sample/vocabulary_math.h"

namespace slip {

namespace {

constexpr std::size_t kBlock = 128;

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
  // Most blocks hold nothing that ranks, which one vector pass over a block tells.
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (out.size() == wanted && !(largest_of(block) > out.front().logprob)) continue;
    for (std::size_t i = begin; i < begin + block.size(); ++i) consider(i);
  }
  std::sort_heap(out.begin(), out.end(), ranks_before);
  for (TokenLogprob& entry : out) entry.logprob = static_cast<float>(entry.logprob - log_normalizer);
}

}  // namespace slip
