// SPDX-License-Identifier: Apache-2.0
#include "distill/loss.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "common/error.h"

// The two loops over the vocabulary are compiled once per instruction class and picked when the program starts.
// Sanitizers cannot run before the resolvers that pick, so their builds take the plain loops.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLIP_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SLIP_VECTOR_CLONES
#endif

namespace slip {
namespace {

constexpr int kLanes = 16;
// Below this share the bucket is summed by itself: whole minus kept would cancel.
constexpr double kCancelling = 1e-4;

// exp(x) for x ≤ 0 to 2 ulp, without a branch, so that the compiler can vectorise its caller. Below −87 (near the
// smallest normal float) it stays at exp(−87): no probability is ever exactly zero, and none is denormal.
inline float exp_nonpositive(float x) {
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer kept in the low bits
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + kRounding;
  const float n = shifted - kRounding;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  float y = 1.9875691500e-4F;
  y = y * r + 1.3981999507e-3F;
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * r * r + r + 1.0F;
  const auto exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRounding);
  return y * std::bit_cast<float>((exponent + 127U) << 23U);
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

// e[i] = exp((x[i] − top) · scale); returns Σ e. Partial sums are float over short runs, double beyond.
SLIP_VECTOR_CLONES double exponentiate(const float* x, std::int64_t n, float top, float scale, float* e) {
  constexpr std::int64_t kRun = 64 * kLanes;
  double sum = 0;
  for (std::int64_t run = 0; run < n; run += kRun) {
    const std::int64_t end = std::min(n, run + kRun);
    std::array<float, kLanes> lane{};
    std::int64_t i = run;
    for (; i + kLanes <= end; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) {
        const float value = exp_nonpositive((x[i + j] - top) * scale);
        e[i + j] = value;
        lane[j] += value;
      }
    }
    for (; i < end; ++i) {
      e[i] = exp_nonpositive((x[i] - top) * scale);
      sum += e[i];
    }
    for (float partial : lane) sum += partial;
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

// Mass of everything that is not kept, relative to `sum`. `e` holds all exponentials.
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
  thread_local std::vector<double> log_p;
  thread_local std::vector<double> slopes;
  log_targets(options, logprobs, k, log_tail, has_tail, log_p);
  slopes.resize(log_p.size());

  const float top = largest(logits, vocab);
  const auto inverse_temperature = static_cast<float>(1 / options.temperature);
  const double sum = exponentiate(logits, vocab, top, inverse_temperature, grad);
  const double log_sum = std::log(sum);

  double loss = 0;
  double mean_slope = 0;  // Σ Q g: what the softmax's normalisation takes from every slope
  auto add_bucket = [&](std::size_t bucket, double q, double log_q) {
    const double p = std::exp(log_p[bucket]);
    const kernels::LossTerm term = kernels::bucket_term(options, p, log_p[bucket], q, log_q);
    loss += term.loss;
    slopes[bucket] = term.slope;
    mean_slope += q * term.slope;
  };
  for (std::int64_t i = 0; i < k; ++i) {
    const double log_q = (static_cast<double>(logits[ids[i]]) - top) / options.temperature - log_sum;
    add_bucket(i, std::max(std::exp(log_q), 1e-300), std::max(log_q, -690.0));
  }
  const double tail = has_tail ? tail_share(grad, vocab, ids, k, sum) : 0;
  if (has_tail) add_bucket(k, tail, std::log(tail));

  // d loss / d z_i = q_i (g of its bucket − Σ Q g) / T. The kept ids are set after the rest, whose pass touches all.
  const double step = weight / options.temperature;
  scale_all(grad, vocab, has_tail ? static_cast<float>(step * (slopes[k] - mean_slope) / sum) : 0.0F);
  for (std::int64_t i = 0; i < k; ++i) {
    const double log_q = (static_cast<double>(logits[ids[i]]) - top) / options.temperature - log_sum;
    const double q = std::max(std::exp(log_q), 1e-300);
    grad[ids[i]] = static_cast<float>(step * q * (slopes[i] - mean_slope));
  }
  return loss;
}

}  // namespace slip
