// SPDX-License-Identifier: Apache-2.0
// All loops run over one row in a fixed order: the same logits give the same bits, whatever their batch.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "common/thread_memory.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/sampling/distribution.h"
#include "engine/sampling/vocabulary_math.h"
#include "kernels/logits_processors.h"

namespace slip {

namespace {

// Weights in (0, 1] are bucketed by exponent and the top five mantissa bits, largest first. Finding the largest weights
// up to a count or a mass then takes one pass over the vocabulary and a sort of one bucket.
constexpr int kMantissaBits = 5;
constexpr std::size_t kBuckets = 128 << kMantissaBits;  // exponents below 2^−127 share the last

std::size_t bucket_of(double weight) {
  constexpr int kShift = 52 - kMantissaBits;
  const std::uint64_t below_one =
      (std::bit_cast<std::uint64_t>(1.0) >> kShift) - (std::bit_cast<std::uint64_t>(weight) >> kShift);
  return std::min<std::size_t>(below_one, kBuckets - 1);
}

struct Candidate {
  double weight;
  std::int32_t id;
};

bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

enum class Measure { kCount, kMass };

struct Border {
  std::size_t bucket = 0;
  double before = 0;  // sum over the buckets of larger weights
};

Border find_border(const Distribution& weights, Measure measure, double target) {
  std::array<double, kBuckets> sums{};
  for (const double weight : weights.probabilities) {
    sums[bucket_of(weight)] += measure == Measure::kCount ? 1.0 : weight;
  }
  Border border;
  for (border.bucket = 0; border.bucket + 1 < kBuckets; ++border.bucket) {
    if (border.before + sums[border.bucket] >= target) break;
    border.before += sums[border.bucket];
  }
  return border;
}

// The last candidate, in descending order, of the shortest list whose measure reaches `target`.
Candidate last_kept(const Distribution& weights, Measure measure, double target) {
  const Border border = find_border(weights, measure, target);
  auto& members = thread_scratch<std::vector<Candidate>, struct Members>();
  members.clear();
  members.reserve(weights.ids.size());
  for (std::size_t i = 0; i < weights.ids.size(); ++i) {
    if (bucket_of(weights.probabilities[i]) == border.bucket) {
      members.push_back({weights.probabilities[i], weights.ids[i]});
    }
  }
  if (members.empty()) return {0, std::numeric_limits<std::int32_t>::max()};  // only through rounding: keep all
  std::sort(members.begin(), members.end(), ranks_before);
  double reached = border.before;
  for (const Candidate& member : members) {
    reached += measure == Measure::kCount ? 1.0 : member.weight;
    if (reached >= target) return member;
  }
  return members.back();
}

void keep_head(Distribution& weights, Measure measure, double target) {
  const Candidate last = last_kept(weights, measure, target);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < weights.ids.size(); ++i) {
    const Candidate candidate{weights.probabilities[i], weights.ids[i]};
    if (ranks_before(last, candidate)) continue;
    weights.ids[kept] = candidate.id;
    weights.probabilities[kept++] = candidate.weight;
  }
  weights.ids.resize(kept);
  weights.probabilities.resize(kept);
}

// Drops tokens less likely than min_p times the most likely one, whose weight is 1.
void keep_likely(Distribution& weights, double min_p) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < weights.ids.size(); ++i) {
    if (weights.probabilities[i] < min_p) continue;
    weights.ids[kept] = weights.ids[i];
    weights.probabilities[kept++] = weights.probabilities[i];
  }
  weights.ids.resize(kept);
  weights.probabilities.resize(kept);
}

// The lowest id of the largest logit. A NaN or +inf comes from broken weights: it fails the request, not the process.
std::size_t find_largest(std::span<const float> logits) {
  auto& block_maxima = thread_scratch<std::vector<float>, struct BlockMaxima>();
  const RowScan scan = scan_row(logits, block_maxima);
  if (scan.is_broken || scan.largest == -std::numeric_limits<float>::infinity()) throw broken_logits();
  return index_of_largest(logits, block_maxima, scan.largest);
}

// Each token id is processed once, in ascending order, so the same path gives the same bits.
void penalise(std::span<float> logits, const SamplingParams& params, const RowContext& context) {
  auto& counts = thread_scratch<std::vector<std::int32_t>, struct Counts>();  // [vocab] 0: not in the path
  counts.assign(logits.size(), 0);
  for (std::size_t i = 0; i < context.path.size(); ++i) {
    std::int32_t& times = counts[static_cast<std::size_t>(context.path[i])];
    const bool in_prompt = static_cast<std::int32_t>(i) < context.prompt_tokens;
    times = in_prompt ? kernels::kInPromptOnly : kernels::counted_again(times, 1);
  }
  const kernels::Penalties penalties{params.repetition_penalty, params.presence_penalty, params.frequency_penalty};
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (counts[id] != 0) logits[id] = kernels::penalise(logits[id], penalties, counts[id]);
  }
}

// The logits after logit_bias, min_tokens, penalties and the grammar's mask; `logits` itself when none applies.
std::span<const float> process_logits(std::span<const float> logits, const SamplingParams& params,
                                      const RowContext& context) {
  if (!params.processes_logits()) return logits;
  auto& processed = thread_scratch<std::vector<float>, struct Processed>();  // [vocab]
  processed.assign(logits.begin(), logits.end());
  for (const LogitBias& one : params.logit_bias) processed[static_cast<std::size_t>(one.id)] += one.bias;
  const auto n_answer = static_cast<std::int32_t>(context.path.size()) - context.prompt_tokens;
  if (n_answer < params.min_tokens) {
    for (const std::int32_t id : context.end_ids) {
      processed[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
  }
  if (params.has_penalty()) penalise(processed, params, context);
  SLIP_CHECK((params.grammar == nullptr) == (context.grammar == nullptr), "a grammar comes with the way through it");
  if (context.grammar != nullptr) {
    const auto answer = context.path.subspan(static_cast<std::size_t>(context.prompt_tokens));
    if (const TokenMask* mask = context.grammar->mask_after(answer)) keep_allowed(*mask, context.end_ids, processed);
  }
  return processed;
}

// exp((logit − largest) / temperature) of every token for which that is not 0 in float64; returns their sum.
double fill_weights(std::span<const float> logits, double largest, double temperature, Distribution& out) {
  out.ids.resize(logits.size());
  out.probabilities.resize(logits.size());
  const ExpSum weights = exp_differences(logits, largest, temperature, out.probabilities.data());
  std::iota(out.ids.begin(), out.ids.end(), 0);
  if (!weights.has_zero) return weights.sum;
  std::size_t n = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    out.ids[n] = static_cast<std::int32_t>(i);
    out.probabilities[n] = out.probabilities[i];
    n += out.probabilities[i] > 0 ? 1 : 0;
  }
  out.ids.resize(n);
  out.probabilities.resize(n);
  return weights.sum;
}

}  // namespace

Error broken_logits() {
  return {ErrorCode::kDataLoss, "the model computed a logit that is not a number",
          "the weights hold NaN or infinite values, or overflow in this dtype; check the checkpoint"};
}

void check_logits(std::span<const float> logits) {
  find_largest(logits);
}

void transform_logits(std::span<const float> raw_logits, const SamplingParams& params, const RowContext& context,
                      Distribution& out) {
  SLIP_CHECK(!raw_logits.empty(), "a vocabulary has at least one token");
  SLIP_CHECK(params.temperature >= 0 && params.top_p > 0 && params.top_k >= 0, "submit() checks the ranges");
  const std::span<const float> logits = process_logits(raw_logits, params, context);
  const std::size_t best = find_largest(logits);
  if (params.temperature == 0) {
    out.ids.assign(1, static_cast<std::int32_t>(best));
    out.probabilities.assign(1, 1.0);
    return;
  }
  double total = fill_weights(logits, logits[best], params.temperature, out);
  if (params.min_p > 0) {
    keep_likely(out, params.min_p);
    total = sum_in_lanes(out.probabilities);
  }
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < out.ids.size()) {
    keep_head(out, Measure::kCount, params.top_k);
    total = sum_in_lanes(out.probabilities);
  }
  if (params.top_p < 1) {
    keep_head(out, Measure::kMass, params.top_p * total);
    total = sum_in_lanes(out.probabilities);
  }
  for (double& probability : out.probabilities) probability /= total;
}

}  // namespace slip
