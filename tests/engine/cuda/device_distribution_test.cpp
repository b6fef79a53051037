// SPDX-License-Identifier: Apache-2.0
// Distributions, draws and observations of the device code, run on the host, against the CPU's transform and samplers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "engine/sampling/distribution.h"
#include "engine/speculative/observe.h"
#include "kernels/cuda/observe.cuh"
#include "kernels/cuda/sample.cuh"
#include "tests/kernels/cuda/host_grid.h"

namespace slip {
namespace {

using namespace kernels::cuda;  // NOLINT: the tested names are its

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::int32_t vocab, std::uint64_t seed, double spread = 6) {
  std::vector<float> logits;
  for (std::int32_t i = 0; i < vocab; ++i) {
    const double u = uniform({seed, 0, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft);
    logits.push_back(static_cast<float>(spread * std::log(u / (1 - u) + 1e-12)));
  }
  return logits;
}

RowDistribution distribution_on_host(const std::vector<float>& logits, const SamplingParams& params) {
  const auto shared = std::make_unique<DistributionShared>();
  const Transform transform{params.temperature, params.min_p, params.top_p, params.top_k};
  RowDistribution distribution, by_parts;
  MakeDistributions job{logits.data(), std::ssize(logits), static_cast<std::int32_t>(logits.size()), &transform,
                        &distribution};
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { make_distribution(block, job, *shared); });
  std::vector<RowPart> parts(kRowParts);
  job.parts = parts.data();
  job.distributions = &by_parts;
  run_on_host<kVocabularyThreads>({1, kRowParts},
                                  [&](const VocabularyBlock& block) { scan_best(block, job, *shared); });
  run_on_host<kVocabularyThreads>({1, kRowParts},
                                  [&](const VocabularyBlock& block) { scan_mass(block, job, *shared); });
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { make_distribution(block, job, *shared); });
  EXPECT_EQ(by_parts.total, distribution.total);
  EXPECT_EQ(by_parts.border, distribution.border);
  EXPECT_EQ(by_parts.best, distribution.best);
  EXPECT_EQ(by_parts.state, distribution.state);
  return distribution;
}

std::vector<SamplingParams> transforms() {
  std::vector<SamplingParams> out;
  for (const float temperature : {0.0F, 0.3F, 1.0F, 2.0F}) {
    for (const float min_p : {0.0F, 0.05F}) {
      for (const std::int32_t top_k : {0, 1, 40, 5000}) {
        for (const float top_p : {1.0F, 0.9F, 0.01F})
          out.push_back({.temperature = temperature, .top_p = top_p, .top_k = top_k, .min_p = min_p});
      }
    }
  }
  return out;
}

std::string text_of(const SamplingParams& params) {
  return "temperature " + std::to_string(params.temperature) + " min_p " + std::to_string(params.min_p) + " top_k " +
         std::to_string(params.top_k) + " top_p " + std::to_string(params.top_p);
}

void expect_same_distribution(const std::vector<float>& logits, const SamplingParams& params) {
  Distribution expected;
  transform_logits(logits, params, {}, expected);
  const RowDistribution distribution = distribution_on_host(logits, params);
  ASSERT_EQ(distribution.state, DistributionState::kFine);
  const LogitRow row{logits.data(), static_cast<std::int32_t>(logits.size())};
  for (std::int32_t id = 0; id < row.vocab; ++id) {
    const double p = expected.probability(id);
    // Fixed point leaves a share of the total that depends on the vocabulary alone.
    ASSERT_NEAR(probability(row, distribution, id), p, 1e-10 * p) << text_of(params) << ", token " << id;
  }
}

TEST(DeviceDistributionTest, EveryTransformIsTheCpus) {
  const auto logits = random_logits(3001, 1);
  for (const SamplingParams& params : transforms()) expect_same_distribution(logits, params);
}

TEST(DeviceDistributionTest, EqualLogitsRankByTheirIds) {
  auto logits = random_logits(1500, 2);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = 20;  // the border runs through 500 equals
  logits[700] = 0.0F;
  logits[701] = -0.0F;
  for (const SamplingParams& params : transforms()) expect_same_distribution(logits, params);
  expect_same_distribution(std::vector<float>(700, -0.0F), {.top_k = 33});
}

TEST(DeviceDistributionTest, ImpossibleTokensStayImpossible) {
  auto logits = random_logits(600, 3);
  for (std::size_t i = 0; i < logits.size(); i += 2) logits[i] = -kInfinity;
  for (const SamplingParams& params : transforms()) expect_same_distribution(logits, params);
  expect_same_distribution({4.0F}, {.top_p = 0.5F});
}

TEST(DeviceDistributionTest, WhatIsNotANumberIsReported) {
  auto logits = random_logits(600, 4);
  EXPECT_EQ(distribution_on_host(logits, {}).state, DistributionState::kFine);
  logits[599] = kInfinity;
  EXPECT_EQ(distribution_on_host(logits, {}).state, DistributionState::kNotANumber);
  logits[599] = std::nanf("");
  EXPECT_EQ(distribution_on_host(logits, {.temperature = 0}).state, DistributionState::kNotANumber);
  EXPECT_EQ(distribution_on_host(std::vector<float>(5, -kInfinity), {}).state, DistributionState::kNothingPossible);
}

std::int32_t draw_on_host(const std::vector<float>& logits, const SamplingParams& params, const RandomAddress& address,
                          bool coupled) {
  const auto shared = std::make_unique<DistributionShared>();
  const RowDistribution distribution = distribution_on_host(logits, params);
  std::int32_t token = -1;
  float logprob = 1;
  DrawTokens job;
  job.logits = logits.data();
  job.stride = std::ssize(logits);
  job.vocab = static_cast<std::int32_t>(logits.size());
  job.distributions = &distribution;
  job.addresses = &address;
  job.coupled = coupled;
  job.tokens = &token;
  job.logprobs = &logprob;
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { draw_token(block, job, *shared); });
  if (coupled) {
    std::vector<RowPart> parts(kRowParts);
    const GumbelParts scan{logits.data(), std::ssize(logits), job.vocab, &distribution, &address, parts.data()};
    run_on_host<kVocabularyThreads>({1, kRowParts},
                                    [&](const VocabularyBlock& block) { scan_gumbel(block, scan, *shared); });
    std::int32_t by_parts = -1;
    job.parts = parts.data();
    job.tokens = &by_parts;
    run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { draw_token(block, job, *shared); });
    EXPECT_EQ(by_parts, token);
  }
  Distribution expected;
  transform_logits(logits, params, {}, expected);
  EXPECT_NEAR(logprob, std::log(expected.probability(token)), 1e-6);
  return token;
}

TEST(DeviceDrawTest, DrawsWhatTheCpuDraws) {
  const auto logits = random_logits(2000, 5, 2);
  for (std::uint32_t i = 0; i < 60; ++i) {
    const SamplingParams params{.temperature = i % 2 == 0 ? 1.0F : 0.6F, .top_p = i % 3 == 0 ? 0.8F : 1.0F};
    const RandomAddress address{77, i % 4, i};
    Distribution distribution;
    transform_logits(logits, params, {}, distribution);
    EXPECT_EQ(draw_on_host(logits, params, address, /*coupled=*/true), sample_gumbel(distribution, address)) << i;
    EXPECT_EQ(draw_on_host(logits, params, address, /*coupled=*/false),
              sample_inverse_cdf(distribution, uniform(address, RandomPurpose::kDraft)))
        << i;
  }
}

TEST(DeviceDrawTest, GreedyTakesTheFirstOfTheGreatest) {
  auto logits = random_logits(2000, 6);
  logits[41] = logits[1333] = 1000;
  EXPECT_EQ(draw_on_host(logits, {.temperature = 0}, {}, true), 41);
  EXPECT_EQ(draw_on_host(logits, {.temperature = 0}, {}, false), 41);
}

TEST(DeviceObserveTest, KeepsWhatTheCpuKeeps) {
  auto logits = random_logits(4000, 7, 1.5);
  logits[17] = logits[3999] = logits[18];
  for (const std::int32_t k : {1, 32, 128}) {
    const auto shared = std::make_unique<ObserveShared>();
    std::vector<std::int32_t> ids(static_cast<std::size_t>(k));
    std::vector<float> logprobs(ids.size());
    float log_tail = 1;
    const Observe job{logits.data(), std::ssize(logits), 4000, k, ids.data(), logprobs.data(), &log_tail};
    run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { observe_row(block, job, *shared); });
    const TopK expected = slip::observe_row(logits, k);
    EXPECT_EQ(ids, expected.ids);
    for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_NEAR(logprobs[i], expected.logprobs[i], 1e-6) << i;
    EXPECT_NEAR(log_tail, expected.log_tail, 1e-5);
  }
}

TEST(DeviceObserveTest, AWholeVocabularyLeavesNoTail) {
  const auto logits = random_logits(20, 8);
  const auto shared = std::make_unique<ObserveShared>();
  std::vector<std::int32_t> ids(20);
  std::vector<float> logprobs(20);
  float log_tail = 1;
  const Observe job{logits.data(), 20, 20, 20, ids.data(), logprobs.data(), &log_tail};
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { observe_row(block, job, *shared); });
  EXPECT_EQ(ids, slip::observe_row(logits, 20).ids);
  EXPECT_EQ(log_tail, -kInfinity);
}

}  // namespace
}  // namespace slip
