// SPDX-License-Identifier: Apache-2.0
// The device's fused loss, run on the host, against fused_loss_row().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "distill/trainer/loss.h"
#include "engine/sampling/random.h"
#include "kernels/cuda/loss.cuh"
#include "tests/kernels/cuda/host_grid.h"

namespace slip {
namespace {

using namespace kernels::cuda;  // NOLINT: the tested names are its

// A target of which the k likeliest of `vocab` are kept, and a draft that roughly agrees.
struct Row {
  Row(std::int32_t vocab, std::int32_t k, std::uint64_t seed, double sharpness) {
    std::vector<double> z;
    for (std::int32_t i = 0; i < vocab; ++i) {
      const auto noise = [&](std::uint64_t of) {
        return 2 * uniform({of, 0, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft) - 1;
      };
      z.push_back(sharpness * noise(seed));
      logits.push_back(static_cast<float>(0.6 * z.back() + 2 * noise(seed + 1)));
    }
    double sum = 0;
    for (const double value : z) sum += std::exp(value);
    ids.resize(static_cast<std::size_t>(vocab));
    std::iota(ids.begin(), ids.end(), 0);
    std::sort(ids.begin(), ids.end(), [&](int a, int b) { return z[a] > z[b]; });
    ids.resize(static_cast<std::size_t>(k));
    double mass = 0;
    for (const std::int32_t id : ids) {
      logprobs.push_back(static_cast<float>(z[static_cast<std::size_t>(id)] - std::log(sum)));
      mass += std::exp(logprobs.back());
    }
    log_tail = k < vocab && mass < 1 ? static_cast<float>(std::log1p(-mass)) : -INFINITY;
  }
  std::vector<float> logits, logprobs;
  std::vector<std::int32_t> ids;
  float log_tail = 0;
};

struct LossAndGradient {
  double loss = 0;
  std::vector<float> gradient;
};
LossAndGradient loss_on_host(const LossOptions& options, const Row& row, float weight) {
  LossAndGradient out;
  out.gradient.assign(row.logits.size(), 1e9F);
  FusedLoss job;
  job.options = options;
  job.logits = row.logits.data();
  job.stride = std::ssize(row.logits);
  job.vocab = static_cast<std::int32_t>(row.logits.size());
  job.top_k = static_cast<std::int32_t>(row.ids.size());
  job.ids = row.ids.data();
  job.logprobs = row.logprobs.data();
  job.log_tail = &row.log_tail;
  job.weights = &weight;
  job.losses = &out.loss;
  job.grad = out.gradient.data();
  const auto shared = std::make_unique<LossShared>();
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { fused_loss(block, job, *shared); });
  return out;
}

void expect_the_cpus_loss(const LossOptions& options, const Row& row, float weight) {
  const auto vocab = std::ssize(row.logits), k = std::ssize(row.ids);
  std::vector<float> expected(row.logits.size());
  const double loss = fused_loss_row(options, row.logits.data(), vocab, row.ids.data(), row.logprobs.data(), k,
                                     row.log_tail, weight, expected.data());
  const auto [got, grad] = loss_on_host(options, row, weight);
  const std::string where = std::string(loss_name(options.kind)) + " at " + std::to_string(options.temperature);
  EXPECT_NEAR(got, loss, 2e-6 * (1 + std::abs(loss))) << where;
  float steepest = 0;
  for (const float slope : expected) steepest = std::max(steepest, std::abs(slope));
  for (std::size_t i = 0; i < grad.size(); ++i)
    ASSERT_NEAR(grad[i], expected[i], 2e-6 * steepest) << where << ", " << i;
}

TEST(DeviceLossTest, EveryLossAndItsGradientAreTheCpus) {
  for (const LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    for (const double temperature : {1.0, 0.6, 1.7}) {
      const LossOptions options{kind, 0.3, temperature};
      expect_the_cpus_loss(options, Row(3000, 32, 1, 8), 1);
      expect_the_cpus_loss(options, Row(900, 5, 2, 2), 0.25F);
      expect_the_cpus_loss(options, Row(40, 40, 3, 4), 1);  // no bucket
    }
  }
}

TEST(DeviceLossTest, ASmallTailIsSummedByItself) {
  Row row(2000, 32, 5, 3);
  for (const std::int32_t id : row.ids) row.logits[static_cast<std::size_t>(id)] += 18;
  expect_the_cpus_loss({}, row, 1);
  expect_the_cpus_loss({LossKind::kReverseKl}, row, 1);
}

// The trainer skips a step by the loss or by the norm of the gradient: one of them must not be finite.
TEST(DeviceLossTest, WhatIsNotANumberIsNotSwallowed) {
  const auto is_seen = [](const LossOptions& options, const Row& row) {
    const auto [loss, gradient] = loss_on_host(options, row, 1);
    double sum = loss;
    for (const float slope : gradient) sum += slope;
    return !std::isfinite(sum);
  };
  for (const LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    const LossOptions options{kind, 0.3, 1};
    EXPECT_FALSE(is_seen(options, Row(900, 5, 6, 2))) << loss_name(kind);
    Row target(900, 5, 6, 2), kept = target, other = target, all = target;
    target.logprobs[1] = NAN;
    kept.logits[static_cast<std::size_t>(kept.ids[2])] = NAN;
    other.logits[899] = INFINITY;
    all.logits.assign(900, NAN);
    for (const Row* row : {&target, &kept, &other, &all}) EXPECT_TRUE(is_seen(options, *row)) << loss_name(kind);
  }
}

}  // namespace
}  // namespace slip
