// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/error.h"
#include "engine/sampling/random.h"

namespace slip {
namespace {

constexpr float kNoTail = -std::numeric_limits<float>::infinity();

struct Row {
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
  float log_tail = kNoTail;
};

double draw(std::uint64_t seed, std::uint32_t index) {
  return uniform({seed, 0, index}, RandomPurpose::kDraft) * 2 - 1;
}

std::vector<double> softmax(const std::vector<double>& z) {
  const double top = *std::max_element(z.begin(), z.end());
  std::vector<double> p(z.size());
  double sum = 0;
  for (std::size_t i = 0; i < z.size(); ++i) sum += p[i] = std::exp(z[i] - top);
  for (double& value : p) value /= sum;
  return p;
}

// A target of `vocab` tokens of which the `k` likeliest are kept, and a draft that only roughly agrees.
Row make_row(int vocab, int k, std::uint64_t seed, double sharpness = 4) {
  std::vector<double> target(vocab);
  Row row;
  for (int i = 0; i < vocab; ++i) {
    target[i] = sharpness * draw(seed, i);
    row.logits.push_back(static_cast<float>(0.6 * target[i] + 2 * draw(seed + 1, i)));
  }
  const std::vector<double> p = softmax(target);
  std::vector<std::int32_t> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return p[a] > p[b]; });
  double tail = 0;
  for (int i = 0; i < vocab; ++i) {
    if (i < k) {
      row.ids.push_back(order[i]);
      row.logprobs.push_back(static_cast<float>(std::log(p[order[i]])));
    } else {
      tail += p[order[i]];
    }
  }
  row.log_tail = k < vocab ? static_cast<float>(std::log(tail)) : kNoTail;
  return row;
}

// The loss in double, straight from its definition on buckets: the oracle.
double reference_loss(const LossOptions& options, const Row& row, const std::vector<double>& logits) {
  std::vector<double> scaled(logits);
  for (double& z : scaled) z /= options.temperature;
  std::vector<double> rest = softmax(scaled);
  std::vector<double> q;
  std::vector<double> log_p;
  for (std::size_t i = 0; i < row.ids.size(); ++i) {
    q.push_back(rest[row.ids[i]]);
    rest[row.ids[i]] = 0;
    log_p.push_back(row.logprobs[i] / options.temperature);
  }
  if (row.ids.size() < logits.size()) {
    q.push_back(std::accumulate(rest.begin(), rest.end(), 0.0));
    log_p.push_back(std::max<double>(row.log_tail, std::log(1e-8)) / options.temperature);
  }
  const std::vector<double> p = softmax(log_p);
  double loss = 0;
  for (std::size_t b = 0; b < p.size(); ++b) {
    const double m = options.beta * p[b] + (1 - options.beta) * q[b];
    switch (options.kind) {
      case LossKind::kForwardKl:
        loss += p[b] * std::log(p[b] / q[b]);
        break;
      case LossKind::kReverseKl:
        loss += q[b] * std::log(q[b] / p[b]);
        break;
      case LossKind::kJsd:
        loss += options.beta * p[b] * std::log(p[b] / m) + (1 - options.beta) * q[b] * std::log(q[b] / m);
        break;
      case LossKind::kTotalVariation:
        loss += 0.5 * std::abs(p[b] - q[b]);
        break;
    }
  }
  return loss;
}

double fused(const LossOptions& options, const Row& row, std::vector<float>& grad, double weight = 1) {
  grad.assign(row.logits.size(), 1e9F);
  return fused_loss_row(options, row.logits.data(), static_cast<std::int64_t>(row.logits.size()), row.ids.data(),
                        row.logprobs.data(), static_cast<std::int64_t>(row.ids.size()), row.log_tail, weight,
                        grad.data());
}

// Largest difference between `grad` and central differences of the oracle, relative to the largest slope.
double gradient_error(const LossOptions& options, const Row& row, const std::vector<float>& grad) {
  std::vector<double> logits(row.logits.begin(), row.logits.end());
  double worst = 0;
  double largest = 1e-12;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double step = 1e-5;
    const double kept = logits[i];
    logits[i] = kept + step;
    const double above = reference_loss(options, row, logits);
    logits[i] = kept - step;
    const double below = reference_loss(options, row, logits);
    logits[i] = kept;
    const double slope = (above - below) / (2 * step);
    largest = std::max(largest, std::abs(slope));
    worst = std::max(worst, std::abs(slope - grad[i]));
  }
  return worst / largest;
}

struct Case {
  LossKind kind;
  double beta, temperature;
  int vocab, k;
};

class LossGradient : public ::testing::TestWithParam<Case> {};

TEST_P(LossGradient, EqualsCentralDifferencesOfTheDefinition) {
  const Case& c = GetParam();
  const LossOptions options{c.kind, c.beta, c.temperature};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Row row = make_row(c.vocab, c.k, 100 * seed);
    std::vector<float> grad;
    const double loss = fused(options, row, grad);
    const double expected = reference_loss(options, row, {row.logits.begin(), row.logits.end()});
    EXPECT_NEAR(loss, expected, 1e-5 * std::max(1.0, expected));
    EXPECT_LT(gradient_error(options, row, grad), 2e-5);
    EXPECT_NEAR(std::accumulate(grad.begin(), grad.end(), 0.0), 0, 1e-5) << "a softmax's slopes cancel";
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    for (double temperature : {1.0, 0.7, 1.6}) {
      all.push_back({kind, 0.5, temperature, 203, 32});  // with a tail
      all.push_back({kind, 0.5, temperature, 61, 61});   // dense: every token kept
      all.push_back({kind, 0.5, temperature, 61, 60});   // a tail of one token
    }
  }
  all.push_back({LossKind::kJsd, 0.1, 1.0, 203, 32});
  all.push_back({LossKind::kJsd, 0.9, 1.0, 203, 32});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, LossGradient, ::testing::ValuesIn(cases()));

TEST(Loss, DenseRowIsTheTextbookLossOverTheWholeVocabulary) {
  const Row row = make_row(97, 97, 7);
  const std::vector<double> q = softmax({row.logits.begin(), row.logits.end()});
  std::vector<double> p(97);
  for (std::size_t i = 0; i < row.ids.size(); ++i) p[row.ids[i]] = std::exp(static_cast<double>(row.logprobs[i]));
  double kl = 0;
  double overlap = 0;
  for (int i = 0; i < 97; ++i) {
    kl += p[i] * std::log(p[i] / q[i]);
    overlap += std::min(p[i], q[i]);
  }
  std::vector<float> grad;
  EXPECT_NEAR(fused({LossKind::kForwardKl}, row, grad), kl, 1e-5);
  for (int i = 0; i < 97; ++i) EXPECT_NEAR(grad[i], q[i] - p[i], 1e-6);
  EXPECT_NEAR(fused({LossKind::kTotalVariation}, row, grad), 1 - overlap, 1e-6);
}

TEST(Loss, IsZeroAndFlatWhereTheDraftIsTheTarget) {
  Row row = make_row(64, 64, 3);
  for (std::size_t i = 0; i < row.ids.size(); ++i) row.logits[row.ids[i]] = row.logprobs[i];
  for (LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    std::vector<float> grad;
    EXPECT_NEAR(fused({kind}, row, grad), 0, 1e-6) << loss_name(kind);
    if (kind == LossKind::kTotalVariation) continue;  // has a corner there
    for (float slope : grad) EXPECT_NEAR(slope, 0, 1e-6) << loss_name(kind);
  }
}

TEST(Loss, JsdIsSymmetricAtHalfAndBoundedByLn2) {
  const Row row = make_row(50, 50, 11, /*sharpness=*/30);
  std::vector<float> grad;
  const double loss = fused({LossKind::kJsd, 0.5}, row, grad);
  EXPECT_GT(loss, 0);
  EXPECT_LE(loss, std::log(2.0));
}

TEST(Loss, WeightScalesTheGradientOnly) {
  const Row row = make_row(80, 16, 5);
  for (LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    std::vector<float> full;
    std::vector<float> quarter;
    EXPECT_EQ(fused({kind}, row, full), fused({kind}, row, quarter, 0.25));
    for (std::size_t i = 0; i < full.size(); ++i) EXPECT_NEAR(quarter[i], 0.25F * full[i], 1e-8);
  }
}

TEST(Loss, StaysFiniteAtTheEdges) {
  for (LossKind kind : {LossKind::kForwardKl, LossKind::kReverseKl, LossKind::kJsd, LossKind::kTotalVariation}) {
    Row row = make_row(4096, 32, 9);
    row.log_tail = kNoTail;  // the target says that nothing else can come; the draft thinks otherwise
    for (float scale : {1.0F, 300.0F, -300.0F}) {
      Row extreme = row;
      for (float& z : extreme.logits) z *= scale;
      for (double temperature : {0.3, 1.0, 2.0}) {
        std::vector<float> grad;
        EXPECT_TRUE(std::isfinite(fused({kind, 0.5, temperature}, extreme, grad))) << loss_name(kind);
        EXPECT_TRUE(std::all_of(grad.begin(), grad.end(), [](float g) { return std::isfinite(g); })) << loss_name(kind);
      }
    }
  }
}

TEST(Loss, ADraftThatPutsNothingOnTheTailStillLearnsIt) {
  Row row = make_row(512, 8, 13);
  for (std::int32_t id : row.ids) row.logits[id] = 60;  // the bucket's share is far below float's own precision
  row.log_tail = std::log(0.5F);
  std::vector<float> grad;
  fused({LossKind::kForwardKl}, row, grad);
  double bucket = 0;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    if (std::find(row.ids.begin(), row.ids.end(), i) == row.ids.end()) bucket += grad[i];
  }
  // d KL / d z sums to Q − P over the bucket: −P's share after normalisation, to be pulled up.
  EXPECT_LT(bucket, -0.3);
}

TEST(Loss, LargeVocabularyInOnePass) {
  Row row = make_row(150'000, 32, 17);
  std::vector<float> grad;
  const double loss = fused({LossKind::kForwardKl}, row, grad);
  EXPECT_NEAR(loss, reference_loss({LossKind::kForwardKl}, row, {row.logits.begin(), row.logits.end()}), 1e-4);
}

TEST(Loss, NotANumberIsReportedNotHidden) {
  Row row = make_row(64, 8, 19);
  row.logits[row.ids[0]] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> grad;
  EXPECT_FALSE(std::isfinite(fused({LossKind::kForwardKl}, row, grad)));
}

TEST(Loss, NamesGoBothWays) {
  for (const char* name : {"kl", "rkl", "jsd", "tv"}) EXPECT_STREQ(loss_name(parse_loss(name)), name);
  try {
    parse_loss("mse");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.hint().find("jsd"), std::string::npos);
  }
}

// Planted bugs: each is a plausible mistake, and the comparison above must detect it.
TEST(LossNegative, AGradientThatForgetsTheTailIsCaught) {
  const Row row = make_row(203, 32, 100);
  std::vector<float> grad;
  fused({LossKind::kForwardKl}, row, grad);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    if (std::find(row.ids.begin(), row.ids.end(), i) == row.ids.end()) grad[i] = 0;
  }
  EXPECT_GT(gradient_error({LossKind::kForwardKl}, row, grad), 1e-3);
}

TEST(LossNegative, AGradientOfTheOtherKlIsCaught) {
  const Row row = make_row(203, 32, 100);
  std::vector<float> grad;
  fused({LossKind::kReverseKl}, row, grad);
  EXPECT_GT(gradient_error({LossKind::kForwardKl}, row, grad), 1e-2);
}

TEST(LossNegative, ASwappedBetaIsCaught) {
  const Row row = make_row(203, 32, 100);
  std::vector<float> grad;
  fused({LossKind::kJsd, 0.9}, row, grad);
  EXPECT_GT(gradient_error({LossKind::kJsd, 0.1}, row, grad), 1e-2);
}

TEST(LossNegative, AForgottenTemperatureFactorIsCaught) {
  const Row row = make_row(203, 32, 100);
  std::vector<float> grad;
  const LossOptions options{LossKind::kForwardKl, 0.5, 1.6};
  fused(options, row, grad);
  for (float& slope : grad) slope *= 1.6F;
  EXPECT_GT(gradient_error(options, row, grad), 1e-2);
}

}  // namespace
}  // namespace slip
