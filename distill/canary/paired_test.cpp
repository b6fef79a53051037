// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/paired_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "common/error.h"

namespace slip {

namespace {

// Bets λ per target step. If discordant tokens are won at odds a : b, the best λ is log(a / b) / 2, and growth is flat
// around it. .15 and .3 fit gains of .02 to .05 of α on answers of 70 tokens; .3 fits losses from .03 on, .06 losses of
// .01.
constexpr std::array<double, 2> kPublishBets = {0.15, 0.3};
constexpr std::array<double, 2> kWatchBets = {0.06, 0.3};
constexpr double kGrossBet = 2;         // λ of the bet on z
constexpr double kRestart = 1.0 / 500;  // weight of the bet that starts at each request
// Standard deviation, in steps per tested token, that one request's smooth gain is assumed to have, with the weight of
// so many requests. Measured between versions of the same training: .01 to .05.
constexpr double kAssumedSpread = 0.03, kAssumedRequests = 2;
constexpr double kNormalQuantile = 1.959964;  // 97.5 % quantile

// log(1 + tanh y) without cancellation or overflow.
double log_one_plus_tanh(double y) {
  const double tail = std::log1p(std::exp(-2 * std::abs(y)));
  return std::numbers::ln2 - tail + std::min(2 * y, 0.0);
}

double log_sum(double a, double b) {
  const double larger = std::max(a, b);
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// The log of the sub-Gaussian e-value exp(λz − λ²/2), for z = lost steps over their assumed standard deviation.
double log_gross_loss(const PairedScore& pair) {
  const double tokens = std::max(pair.live.tokens, 1.0);
  const double repeated = pair.live.repeated;
  const double variance = 0.5 * tokens + 0.01 * tokens * tokens + repeated * repeated;
  const double z = -steps_saved(pair) / std::sqrt(variance);
  return kGrossBet * z - kGrossBet * kGrossBet / 2;
}

}  // namespace

PairedScore pair_of(const AcceptanceScore& newer, const AcceptanceScore& older) {
  const double repeated = std::clamp(older.repeated, 0.0, older.tokens);
  const double weight = ratio(older.tokens - repeated + std::sqrt(repeated), older.tokens);
  return {weight * newer, weight * older};
}

double steps_saved(const PairedScore& pair) {
  const double saved = pair.live.steps - pair.candidate.steps;
  SLIP_CHECK(std::isfinite(saved), "a score that is not a number; the scorer refuses such drafts");
  return saved;
}

void GainEstimate::add(const PairedScore& pair) {
  const AcceptanceScore& newer = pair.candidate;
  const AcceptanceScore& older = pair.live;
  const std::array<double, kSums> values = {newer.accepted, newer.accepted + newer.first_rejections, older.accepted,
                                            older.accepted + older.first_rejections};
  for (std::size_t i = 0; i < kSums; ++i) {
    sums_[i] = keep_ * sums_[i] + values[i];
    for (std::size_t j = 0; j < kSums; ++j) {
      products_[i][j] = keep_ * keep_ * products_[i][j] + values[i] * values[j];  // weights enter squared
    }
  }
  tokens_ = keep_ * tokens_ + newer.tokens;
  steps_newer_ = keep_ * steps_newer_ + newer.steps;
  steps_older_ = keep_ * steps_older_ + older.steps;
}

// Delta method: in linear approximation, request i changes the difference by (a_i − α b_i) / Σb of the newer draft
// minus the same of the older one. The variance is the sum of the squares.
Gain GainEstimate::gain() const {
  Gain gain;
  gain.alpha_newer = ratio(sums_[0], sums_[1]);
  gain.alpha_older = ratio(sums_[2], sums_[3]);
  gain.length_newer = ratio(tokens_, steps_newer_);
  gain.length_older = ratio(tokens_, steps_older_);
  gain.value = gain.alpha_newer - gain.alpha_older;
  const std::array<double, kSums> slope = {ratio(1, sums_[1]), -ratio(gain.alpha_newer, sums_[1]), -ratio(1, sums_[3]),
                                           ratio(gain.alpha_older, sums_[3])};
  double variance = 0;
  for (std::size_t i = 0; i < kSums; ++i) {
    for (std::size_t j = 0; j < kSums; ++j) variance += slope[i] * slope[j] * products_[i][j];
  }
  const double reach = kNormalQuantile * std::sqrt(std::max(variance, 0.0));
  gain.low = gain.value - reach;
  gain.high = gain.value + reach;
  return gain;
}

void SmoothGain::add(const PairedScore& pair) {
  const double saved = pair.live.smooth_steps - pair.candidate.smooth_steps;
  n_ += 1;
  saved_ += saved;
  saved_squared_ += saved * saved;
  tested_ += pair.live.accepted + pair.live.first_rejections;
}

// An accepted token saves a step, so steps saved per tested token are a gain in α.
ExpectedGain SmoothGain::gain() const {
  if (tested_ <= 0) return {0, std::numeric_limits<double>::infinity()};
  const double assumed = kAssumedSpread * tested_ / n_;
  const double squares = std::max(saved_squared_ - saved_ * saved_ / n_, 0.0);
  const double variance = (squares + kAssumedRequests * assumed * assumed) / (n_ - 1 + kAssumedRequests);
  return {saved_ / tested_, std::sqrt(variance * n_) / tested_};
}

void SignBets::add(double x) {
  for (std::size_t i = 0; i < kBets; ++i) log_wealth_[i] += log_one_plus_tanh(kPublishBets[i] * x);
}

double SignBets::log_evidence() const {
  return log_sum(log_wealth_[0], log_wealth_[1]) - std::numbers::ln2;
}

void PairedTest::add(const PairedScore& pair) {
  const double saved = steps_saved(pair);
  // An accepted token saves a step, so a margin of α is worth that share of the tested tokens, in steps.
  const double worth_margin = margin_ * (pair.live.accepted + pair.live.first_rejections);
  better_.add(saved);
  below_margin_.add(worth_margin - saved);
  all_.add(pair);
  own_.add(pair);
  own_smooth_.add(pair);
  ++size_;
  ++own_size_;
}

void PairedTest::begin_successor() {
  if (log_evidence_better() <= 0) return begin_anew();
  PairedTest successor(margin_);
  successor.begun_ = begun_;
  successor.better_ = better_;
  successor.all_ = all_;
  successor.size_ = size_;
  *this = successor;
}

void PairedTest::begin_anew() {
  const std::size_t begun = size_ > 0 ? begun_ + 1 : begun_;
  *this = PairedTest(margin_);
  begun_ = begun;
}

void PairedTest::begin_against_new_live() {
  const std::size_t begun = std::max<std::size_t>(1, begun_ / 2);
  *this = PairedTest(margin_);
  begun_ = begun;
}

void LiveWatch::add(const PairedScore& live_and_older) {
  const double lost = -steps_saved(live_and_older);
  const std::array<double, kBets> log_factors = {
      log_one_plus_tanh(kWatchBets[0] * lost), log_one_plus_tanh(kWatchBets[1] * lost), log_gross_loss(live_and_older)};
  for (std::size_t i = 0; i < kBets; ++i) {
    log_wealth_[i] = log_sum(log_wealth_[i], std::log(kRestart)) + log_factors[i];
  }
  gain_.add(live_and_older);
  smooth_.add(live_and_older);
  ++size_;
}

double LiveWatch::log_evidence_worse() const {
  double log_evidence = std::log(kWeights[0]) + log_wealth_[0];
  for (std::size_t i = 1; i < kBets; ++i) {
    log_evidence = log_sum(log_evidence, std::log(kWeights[i]) + log_wealth_[i]);
  }
  return log_evidence;
}

}  // namespace slip
