// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>

#include "common/error.h"
#include "engine/sample/distribution.h"

namespace slip {
namespace {

Distribution transform(const std::vector<float>& logits, SamplingParams params) {
  Distribution out;
  transform_logits(logits, params, {}, out);
  return out;
}

std::vector<float> random_logits(std::size_t n, float spread, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(bits);
  return logits;
}

// The definition, by a full sort: scale, keep k, keep the smallest head of mass top_p, normalise.
Distribution by_definition(const std::vector<float>& logits, const SamplingParams& params) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weight(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) weight[i] = std::exp((logits[i] - largest) / params.temperature);
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });
  if (params.top_k > 0 && params.top_k < static_cast<int>(order.size())) order.resize(params.top_k);
  double kept_mass = 0;
  for (const int id : order) kept_mass += weight[id];
  double reached = 0;
  std::size_t n_kept = 0;
  while (n_kept < order.size() && (n_kept == 0 || reached < params.top_p * kept_mass))
    reached += weight[order[n_kept++]];
  order.resize(n_kept);
  std::sort(order.begin(), order.end());
  Distribution out;
  double total = 0;
  for (const int id : order) total += weight[id];
  for (const int id : order) {
    out.ids.push_back(id);
    out.probabilities.push_back(weight[id] / total);
  }
  return out;
}

TEST(TransformTest, GreedyIsOneHotAtTheLowestOfEquals) {
  const Distribution out = transform({0.5F, 2.0F, -1.0F, 2.0F}, {.temperature = 0, .top_p = 0.5F});
  EXPECT_EQ(out.ids, std::vector<std::int32_t>{1});
  EXPECT_EQ(out.probabilities, std::vector<double>{1.0});
}

TEST(TransformTest, TemperatureDividesLogits) {
  const Distribution out = transform({std::log(4.0F), 0.0F}, {.temperature = 2.0F});
  EXPECT_NEAR(out.probability(0), 2.0 / 3, 1e-7);  // 4^(1/2) : 1
}

TEST(TransformTest, TiesAtTheBorderGoToTheLowestIds) {
  const std::vector<float> flat(10, 1.5F);
  EXPECT_EQ(transform(flat, {.top_k = 3}).ids, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(transform(flat, {.top_p = 0.35F}).ids, (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST(TransformTest, TopPKeepsTheTokenThatReachesTheMass) {
  const std::vector<float> logits{std::log(0.25F), std::log(0.5F), std::log(0.125F), std::log(0.125F)};
  EXPECT_EQ(transform(logits, {.top_p = 0.45F}).ids, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(transform(logits, {.top_p = 0.55F}).ids, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(transform(logits, {.top_p = 1e-6F}).ids, (std::vector<std::int32_t>{1}));
}

TEST(TransformTest, TopPCountsTheMassLeftByTopK) {
  // Kept by top-k: 0.5 and 0.25, so 2/3 and 1/3: 0.6 of that needs one token, of the whole it would need two.
  const std::vector<float> logits{std::log(0.25F), std::log(0.5F), std::log(0.125F), std::log(0.125F)};
  EXPECT_EQ(transform(logits, {.top_p = 0.6F, .top_k = 2}).ids, (std::vector<std::int32_t>{1}));
}

struct SelectionCase {
  std::size_t vocab;
  float spread;
  SamplingParams params;
};

TEST(TransformTest, EqualsTheDefinitionByFullSort) {
  const std::vector<SelectionCase> cases{{100, 3, {.top_k = 10}},
                                         {8192, 3, {.top_p = 0.9F}},
                                         {8192, 3, {.temperature = 0.7F, .top_p = 0.95F, .top_k = 200}},
                                         {8192, 0.01F, {.top_p = 0.5F}},
                                         {8192, 30, {.top_p = 0.999999F}},
                                         {5000, 1, {.temperature = 2.0F, .top_k = 4999}},
                                         {3, 1, {.top_p = 0.9F, .top_k = 7}}};
  unsigned seed = 0;
  for (const SelectionCase& c : cases) {
    const std::vector<float> logits = random_logits(c.vocab, c.spread, ++seed);
    const Distribution actual = transform(logits, c.params), expected = by_definition(logits, c.params);
    ASSERT_EQ(actual.ids, expected.ids) << "case " << seed;
    for (std::size_t i = 0; i < actual.ids.size(); ++i) {
      ASSERT_NEAR(actual.probabilities[i], expected.probabilities[i], 1e-15) << "case " << seed;
    }
  }
}

TEST(TransformTest, OutputBufferHistoryDoesNotMatter) {
  const std::vector<float> logits = random_logits(1000, 2, 9);
  const SamplingParams params{.temperature = 0.8F, .top_p = 0.9F};
  Distribution reused;
  transform_logits(random_logits(3000, 1, 1), {}, {}, reused);
  transform_logits(logits, params, {}, reused);
  const Distribution fresh = transform(logits, params);
  EXPECT_EQ(reused.ids, fresh.ids);
  EXPECT_EQ(reused.probabilities, fresh.probabilities);
}

TEST(TransformTest, BannedTokensLeaveTheSupport) {
  constexpr float kBanned = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(transform({kBanned, 1.0F, kBanned, 0.0F}, {}).ids, (std::vector<std::int32_t>{1, 3}));
}

TEST(TransformTest, BrokenLogitsFailTheRequestNotTheProcess) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       {std::vector<float>{kNan, 1}, {1, kNan}, {1, kInfinity}, {-kInfinity, -kInfinity}}) {
    EXPECT_THROW(transform(logits, {}), Error);
    EXPECT_THROW(transform(logits, {.temperature = 0}), Error);
  }
}

// A guard against an accidental full sort or quadratic pass; the usual time is 2 ms.
TEST(TransformTest, ALargeVocabularyStaysCheap) {
  const std::vector<float> logits = random_logits(150000, 0.5F, 3);
  Distribution out;
  transform_logits(logits, {}, {}, out);
  const std::clock_t begin = std::clock();  // processor time: other load does not count
  transform_logits(logits, {.temperature = 1.5F, .top_p = 0.95F}, {}, out);
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 10);
}

}  // namespace
}  // namespace slip
