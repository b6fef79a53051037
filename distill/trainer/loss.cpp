// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/loss.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/error.h"
#include "common/thread_memory.h"
#include "kernels/vector_clones.h"

namespace slip {
namespace {

constexpr int kLanes = 16;
// Below this share the bucket is summed directly, since total minus kept would cancel.
constexpr double kCancelling = 1e-4;

// One register of AVX2: the compiler leaves a loop over single floats scalar, and splits longer vectors badly.
constexpr int kWide = 8;
using Floats = float __attribute__((vector_size(4 * kWide)));
using Words = std::uint32_t __attribute__((vector_size(4 * kWide)));

// x ← exp(x) for x ≤ 0 to 2 ulp. Below −87 (near the smallest normal float) it stays at exp(−87): no probability is
// ever exactly zero, and none is denormal. NaN stays NaN.
__attribute__((always_inline)) inline void exp_nonpositive(Floats& x) {
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer kept in the low bits
  const Floats least = Floats{} - 87.0F;
  x = x < least ? least : x;
  const Floats shifted = x * 1.44269504F + kRounding;
  const Floats n = shifted - kRounding;
  const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  Floats y = r * 1.9875691500e-4F + 1.3981999507e-3F;
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * r * r + r + 1.0F;
  const Words exponent = (reinterpret_cast<Words>(shifted) - std::bit_cast<std::uint32_t>(kRounding) + 127U) << 23U;
  x = y * reinterpret_cast<Floats>(exponent);
}

SLIP_VECTOR_CLONES float largest(const float* x, std::int64_t n) {
  std::array<float, kLanes> lane;
  lane.fill(x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] = lane[j] < x[i + j] ? x[i + j] : lane[j];
  }
  for (; i < n; ++i) lane[0] = std::max(lane[0], x[i]);
  return *std::max_element(lane.begin(), lane.end());
}

// e[i] = exp((x[i] − top) · scale); returns Σ e. Partial sums are float over short runs, double beyond. e may be x.
SLIP_VECTOR_CLONES double exponentiate(const float* x, std::int64_t n, float top, float scale, float* e) {
  constexpr std::int64_t kRun = 64 * kLanes;
  double sum = 0;
  for (std::int64_t run = 0; run < n; run += kRun) {
    const std::int64_t end = std::min(n, run + kRun);
    Floats lanes{};
    std::int64_t i = run;
    for (; i + kWide <= end; i += kWide) {
      Floats value;
      std::memcpy(&value, x + i, sizeof value);
      value = (value - top) * scale;
      exp_nonpositive(value);
      std::memcpy(e + i, &value, sizeof value);
      lanes += value;
    }
    if (i < end) {
      const auto bytes = static_cast<std::size_t>(end - i) * sizeof(float);
      Floats value = Floats{} + top;
      std::memcpy(&value, x + i, bytes);
      value = (value - top) * scale;
      exp_nonpositive(value);
      std::memcpy(e + i, &value, bytes);
      for (std::int64_t j = 0; j < end - i; ++j) sum += value[j];
    }
    for (int j = 0; j < kWide; ++j) sum += lanes[j];
  }
  return sum;
}

SLIP_VECTOR_CLONES void scale_all(float* x, std::int64_t n, float factor) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// p at temperature T on the kept ids and, last, the bucket: log p, normalised.
void log_targets(const LossOptions& options, const float* logprobs, std::int64_t k, float log_tail, bool has_tail,
                 std::vector<double>& log_p) {
  log_p.resize(static_cast<std::size_t>(k) + (has_tail ? 1 : 0));
  for (std::int64_t i = 0; i < k; ++i) log_p[i] = logprobs[i];
  if (has_tail) log_p[k] = std::max<double>(log_tail, std::log(kernels::kSmallestTail));
  double top = -INFINITY;
  for (double& value : log_p) top = std::max(top, value /= options.temperature);
  double sum = 0;
  for (double value : log_p) sum += std::exp(value - top);
  const double normalizer = top + std::log(sum);
  for (double& value : log_p) value = std::max(value - normalizer, -700.0);
}

// The mass of all ids that are not kept, as a share of `sum`. `e` holds all exponentials.
double tail_share(const float* e, std::int64_t vocab, const std::int32_t* ids, std::int64_t k, double sum) {
  double kept = 0;
  for (std::int64_t i = 0; i < k; ++i) kept += e[ids[i]];
  if (sum - kept > kCancelling * sum) return (sum - kept) / sum;
  std::vector<std::int32_t> sorted(ids, ids + k);
  std::sort(sorted.begin(), sorted.end());
  double tail = 0;
  auto next = sorted.begin();
  for (std::int64_t i = 0; i < vocab; ++i) {
    if (next != sorted.end() && *next == i) {
      ++next;
    } else {
      tail += e[i];
    }
  }
  return tail / sum;
}

}  // namespace

LossKind parse_loss(const std::string& name) {
  for (LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    if (name == loss_name(kind)) return kind;
  }
  throw Error(ErrorCode::kInvalidArgument, "unknown loss \"" + name + "\"", "choose one of kl, rkl, jsd, tv", "loss");
}

const char* loss_name(LossKind kind) {
  switch (kind) {
    case LossKind::kForwardKl:
      return "kl";
    case LossKind::kReverseKl:
      return "rkl";
    case LossKind::kJsd:
      return "jsd";
    case LossKind::kTotalVariation:
      return "tv";
  }
  return "?";
}

double fused_loss_row(const LossOptions& options, const float* logits, std::int64_t vocab, const std::int32_t* ids,
                      const float* logprobs, std::int64_t k, float log_tail, double weight, float* grad) {
  const bool has_tail = k < vocab;
  auto& log_p = thread_scratch<std::vector<double>, struct LogP>();
  auto& slopes = thread_scratch<std::vector<double>, struct Slopes>();
  // Logits of the kept ids, copied since `grad` may overwrite `logits`.
  auto& kept = thread_scratch<std::vector<float>, struct Kept>();
  log_targets(options, logprobs, k, log_tail, has_tail, log_p);
  slopes.resize(log_p.size());
  kept.resize(static_cast<std::size_t>(k));
  for (std::int64_t i = 0; i < k; ++i) kept[i] = logits[ids[i]];

  const float top = largest(logits, vocab);
  const auto inverse_temperature = static_cast<float>(1 / options.temperature);
  const double sum = exponentiate(logits, vocab, top, inverse_temperature, grad);
  const double log_sum = std::log(sum);

  double loss = 0;
  double mean_slope = 0;  // Σ Q g: the softmax's normalisation subtracts it from every slope
  auto add_bucket = [&](std::size_t bucket, double q, double log_q) {
    const double p = std::exp(log_p[bucket]);
    const kernels::LossTerm term = kernels::bucket_term(options, p, log_p[bucket], q, log_q);
    loss += term.loss;
    slopes[bucket] = term.slope;
    mean_slope += q * term.slope;
  };
  for (std::int64_t i = 0; i < k; ++i) {
    const double log_q = (static_cast<double>(kept[i]) - top) / options.temperature - log_sum;
    add_bucket(i, std::max(std::exp(log_q), 1e-300), std::max(log_q, -690.0));
  }
  const double tail = has_tail ? tail_share(grad, vocab, ids, k, sum) : 0;
  if (has_tail) add_bucket(k, tail, std::log(tail));

  // d loss / d z_i = q_i (g of its bucket − Σ Q g) / T. The kept ids are set last, since scale_all() writes all ids.
  const double step = weight / options.temperature;
  scale_all(grad, vocab, has_tail ? static_cast<float>(step * (slopes[k] - mean_slope) / sum) : 0.0F);
  for (std::int64_t i = 0; i < k; ++i) {
    const double log_q = (static_cast<double>(kept[i]) - top) / options.temperature - log_sum;
    const double q = std::max(std::exp(log_q), 1e-300);
    grad[ids[i]] = static_cast<float>(step * q * (slopes[i] - mean_slope));
  }
  return loss;
}

}  // namespace slip
