// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "common/error.h"
#include "common/thread_memory.h"
#include "engine/sampling/distribution.h"
#include "engine/sampling/vocabulary_math.h"

namespace slip {

namespace {

// A lower bound of the `wanted` largest values: at least `wanted` blocks have a maximum no smaller.
float lower_bound_of_head(const std::vector<float>& maxima, std::size_t wanted) {
  auto& ranked = thread_scratch<std::vector<float>, struct Ranked>();
  ranked = maxima;
  if (wanted > ranked.size()) return -std::numeric_limits<float>::infinity();
  const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(ranked.begin(), last, ranked.end(), std::greater<>());
  return *last;
}

// One pass finds the maximum of each block and of the row; a second one sums.
double scan_and_sum(std::span<const float> logits, std::vector<float>& maxima) {
  SLIP_CHECK(!logits.empty(), "a vocabulary has at least one token");
  const float largest = scan_row(logits, maxima).largest;
  return largest + std::log(sum_exp_differences(logits, largest));
}

// Of the current row.
std::vector<float>& block_maxima() {
  return thread_scratch<std::vector<float>, struct BlockMaxima>();
}

}  // namespace

double log_normalizer(std::span<const float> logits) {
  return scan_and_sum(logits, block_maxima());
}

double top_logprobs(std::span<const float> logits, std::int32_t n, std::vector<TokenLogprob>& out) {
  std::vector<float>& maxima = block_maxima();
  const double normalizer = scan_and_sum(logits, maxima);
  const auto ranks_before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  out.clear();
  const std::size_t wanted = std::min(logits.size(), static_cast<std::size_t>(std::max(n, 0)));
  if (wanted == 0) return normalizer;
  // A heap with the last-ranked entry on top. It holds raw logits until the end, since rounding in the subtraction
  // could change ranks.
  const auto consider = [&](std::size_t i) {
    const TokenLogprob entry{static_cast<std::int32_t>(i), logits[i]};
    if (out.size() == wanted) {
      if (!ranks_before(entry, out.front())) return;
      std::pop_heap(out.begin(), out.end(), ranks_before);
      out.pop_back();
    }
    out.push_back(entry);
    std::push_heap(out.begin(), out.end(), ranks_before);
  };
  // Skips most blocks: their maximum is below the bound.
  const float bound = lower_bound_of_head(maxima, wanted);
  for (std::size_t block = 0; block < maxima.size(); ++block) {
    if (maxima[block] < bound) continue;
    const std::size_t begin = block / kScanLanes * kScanStretch;
    const std::size_t end = std::min(begin + kScanStretch, logits.size());
    for (std::size_t i = begin + block % kScanLanes; i < end; i += kScanLanes) {
      if (!(logits[i] < bound)) consider(i);
    }
  }
  std::sort_heap(out.begin(), out.end(), ranks_before);
  for (TokenLogprob& entry : out) entry.logprob = static_cast<float>(entry.logprob - normalizer);
  return normalizer;
}

}  // namespace slip
