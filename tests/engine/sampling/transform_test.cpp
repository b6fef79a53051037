// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>

#include "common/error.h"
#include "engine/sampling/distribution.h"
#include "tests/engine/sampling/reference_transform.h"

namespace slip {
namespace {

using testing::reference_transform;

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

// Probabilities of [vocab] by the textbook: processed logits, softmax.
std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> out;
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  for (const double logit : logits) out.push_back(std::exp(logit) / total);
  return out;
}

TEST(TransformTest, PenaltiesCountThePromptAndTheAnswerAsTheyShould) {
  // Token 0 stands in the prompt only, 1 in both, 2 twice in the answer, 3 nowhere.
  const std::vector<float> logits{1.5F, -0.5F, 2, 0.25F};
  const std::vector<std::int32_t> path{0, 1, 0, 2, 1, 2};
  const SamplingParams params{.repetition_penalty = 1.25F, .presence_penalty = 0.5F, .frequency_penalty = 0.25F};
  Distribution out;
  transform_logits(logits, params, {path, 3, {}}, out);
  const auto expected = softmax({1.5 / 1.25, -0.5 * 1.25 - 0.25 - 0.5, 2 / 1.25 - 2 * 0.25 - 0.5, 0.25});
  for (int id = 0; id < 4; ++id) EXPECT_NEAR(out.probability(id), expected[static_cast<std::size_t>(id)], 1e-6) << id;
  EXPECT_EQ(logits[0], 1.5F) << "the row itself is somebody else's";
}

TEST(TransformTest, PenaltiesComeBeforeGreed) {
  Distribution out;
  transform_logits(std::vector<float>{1, 1.2F, 0}, {.temperature = 0, .frequency_penalty = 0.3F},
                   {std::vector<std::int32_t>{2, 1}, 1, {}}, out);
  EXPECT_EQ(out.ids, std::vector<std::int32_t>{0});
}

TEST(TransformTest, BiasAddsToTheLogitAndMayForbid) {
  Distribution out;
  transform_logits(std::vector<float>{0, 1, 2}, {.logit_bias = {{0, 1.5F}, {2, -100}}}, {}, out);
  const auto expected = softmax({1.5, 1, -98});
  for (int id = 0; id < 3; ++id) EXPECT_NEAR(out.probability(id), expected[static_cast<std::size_t>(id)], 1e-6);
}

TEST(TransformTest, EndTokensAreImpossibleBeforeMinTokens) {
  const std::vector<float> logits{0, 5, 4};
  const std::vector<std::int32_t> ends{1, 2}, path{0, 0, 0};
  const SamplingParams params{.min_tokens = 2};
  Distribution out;
  transform_logits(logits, params, {path, 2, ends}, out);  // one token of the answer so far
  EXPECT_EQ(out.ids, std::vector<std::int32_t>{0});
  transform_logits(logits, params, {path, 1, ends}, out);
  EXPECT_EQ(out.ids.size(), 3U);
}

TEST(TransformTest, MinPEqualsItsDefinition) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto logits = random_logits(500, 2, seed);
    for (const SamplingParams& params :
         {SamplingParams{.min_p = 0.05F}, SamplingParams{.temperature = 0.7F, .min_p = 0.2F},
          SamplingParams{.top_p = 0.8F, .top_k = 20, .min_p = 0.01F}, SamplingParams{.min_p = 1}}) {
      const Distribution got = transform(logits, params), want = reference_transform(logits, params);
      ASSERT_EQ(got.ids, want.ids);
      for (std::size_t i = 0; i < got.ids.size(); ++i) EXPECT_NEAR(got.probabilities[i], want.probabilities[i], 1e-12);
    }
  }
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
    const Distribution actual = transform(logits, c.params), expected = reference_transform(logits, c.params);
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
