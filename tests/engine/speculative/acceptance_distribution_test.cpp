// SPDX-License-Identifier: Apache-2.0
// The acceptance rules promise a distribution, so the tests check distributions. Each test's statistic is also applied
// to planted bugs, which it must refuse (the tests named Negative…).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "engine/speculative/acceptance.h"
#include "tests/engine/goodness_of_fit.h"
#include "tests/engine/speculative/toy_decoding.h"

namespace slip {
namespace {

using testing::chi_square_p_value;
using testing::couple;
using testing::kSignificance;
using testing::reject;
using testing::Rule;
using testing::Tamper;
using testing::ToyDecoder;
using testing::ToyDraft;
using testing::ToyModel;

constexpr std::int64_t kDraws = 200000;
constexpr std::int64_t kManyDraws = 1000000;
const std::vector<std::int32_t> kChain{-1, 0, 1};

// ---- one step: the first token out follows p --------------------------------------------------------------------

struct OneStep {
  Distribution p, q;
  DrawMethod draw_method = DrawMethod::kSampled;
  Distribution told_q = {};  // the q that the rule is given; empty: the true one
};

double one_step_p_value(const OneStep& step, const Rule& rule = reject, std::int64_t n_draws = kDraws) {
  std::vector<std::int64_t> counts(16);
  std::vector<double> distribution(16);
  for (std::size_t i = 0; i < step.p.ids.size(); ++i) distribution.at(step.p.ids[i]) = step.p.probabilities[i];
  Proposal proposal;
  proposal.tokens = {0};
  proposal.parents = {-1};
  proposal.draw_method = step.draw_method;
  proposal.q = {step.told_q.ids.empty() ? step.q : step.told_q};
  const std::vector<Distribution> p{step.p, step.p};
  for (std::uint32_t draw = 0; draw < n_draws; ++draw) {
    const RandomAddress at{.seed = 42, .output_index = 2 * draw};  // the bonus takes the odd ones
    proposal.tokens[0] = sample_inverse_cdf(step.q, uniform(at, RandomPurpose::kDraft));
    const VerifyResult result = rule(proposal, p, at);
    ++counts.at(result.accepted.empty() ? result.added_token : proposal.tokens[0]);
  }
  return chi_square_p_value(counts, distribution);
}

Distribution transformed(const std::vector<float>& logits, const SamplingParams& params) {
  Distribution out;
  transform_logits(logits, params, {}, out);
  return out;
}

const Distribution kP{{0, 1, 2, 3, 4}, {0.4, 0.3, 0.15, 0.1, 0.05}};
const Distribution kQ{{0, 1, 2, 3, 4}, {0.1, 0.35, 0.2, 0.05, 0.3}};
const std::vector<float> kTargetLogits{1.0F, 0.2F, -0.5F, 2.0F, 0.0F, 1.4F};
const std::vector<float> kDraftLogits{0.3F, 1.0F, -1.5F, 1.0F, 0.7F, 1.2F};

TEST(OneStepDistributionTest, FollowsPWhateverQ) {
  const SamplingParams warm{.temperature = 0.7F}, hot{.temperature = 1.7F}, top{.top_k = 3}, nucleus{.top_p = 0.8F};
  const std::vector<std::pair<std::string, OneStep>> cases{
      {"q over the same support", {kP, kQ}},
      {"q = 0 where p > 0", {kP, {{1, 4}, {0.2, 0.8}}}},
      {"p = 0 where q > 0", {{{1, 3}, {0.25, 0.75}}, kQ}},
      {"one-hot q", {kP, {{2}, {1.0}}}},
      {"deterministic", {kP, {{2}, {1.0}}, DrawMethod::kDeterministic}},
      {"deterministic off the support", {kP, {{9}, {1.0}}, DrawMethod::kDeterministic}},
      {"p = q", {kP, kP}},
      {"disjoint", {{{0, 1}, {0.6, 0.4}}, {{2, 3}, {0.5, 0.5}}}},
      {"temperature 0.7", {transformed(kTargetLogits, warm), transformed(kDraftLogits, warm)}},
      {"temperature 1.7", {transformed(kTargetLogits, hot), transformed(kDraftLogits, hot)}},
      {"top-k", {transformed(kTargetLogits, top), transformed(kDraftLogits, top)}},
      {"top-p", {transformed(kTargetLogits, nucleus), transformed(kDraftLogits, nucleus)}}};
  for (const auto& [name, step] : cases) EXPECT_GT(one_step_p_value(step), kSignificance) << name;
}

TEST(OneStepDistributionTest, NegativeControlStaleQIsCaught) {
  EXPECT_LT(one_step_p_value({kP, kQ, DrawMethod::kSampled, {{0, 1, 2, 3, 4}, {0.15, 0.3, 0.25, 0.05, 0.25}}}),
            kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlQAtAnotherTemperatureIsCaught) {
  const SamplingParams drawn{.temperature = 1.0F}, told{.temperature = 0.9F};
  EXPECT_LT(one_step_p_value({transformed(kTargetLogits, drawn), transformed(kDraftLogits, drawn), DrawMethod::kSampled,
                              transformed(kDraftLogits, told)}),
            kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlBeamTokensVerifiedBySoftmaxAreCaught) {
  // The draft always proposes its best token, but reports its softmax as if it had drawn from it.
  EXPECT_LT(one_step_p_value({kP, {{1}, {1.0}}, DrawMethod::kSampled, kQ}), kSignificance);
}

// Keeps 8 bits of mantissa, to nearest even, as a bf16 tensor would.
double to_bfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U);
}

// A sure draft on a sure target: rounding q = .9979 down to .9961 keeps .18 % more of token 0 than is due.
OneStep sure_step() {
  return {{{0, 1}, {0.99, 0.01}}, {{0, 1}, {0.9979, 0.0021}}};
}

TEST(OneStepDistributionTest, HoldsForASureDraft) {
  EXPECT_GT(one_step_p_value(sure_step(), reject, kManyDraws), kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlRatioInBfloat16IsCaught) {
  OneStep rounded = sure_step();
  rounded.told_q = rounded.q;
  for (double& probability : rounded.told_q.probabilities) probability = to_bfloat16(probability);
  EXPECT_LT(one_step_p_value(rounded, reject, kManyDraws), kSignificance);
}

// A second implementation of one step, for bugs that cannot be planted from outside. u lies on a grid of 1/64, so that
// u = 0 occurs; every ratio p/q of grid_step() is a multiple of 1/64, so that the distribution stays exact.
struct OneStepBug {
  bool keeps_at_equality = false;  // u <= p/q
  bool residual_is_p = false;
  bool residual_not_normalised = false;
  RandomPurpose verified_with = RandomPurpose::kAccept;
};

Rule one_step_rule(const OneStepBug& bug) {
  return [bug](const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
    VerifyResult result;
    const std::int32_t x = proposal.tokens[0];
    const Distribution& q = proposal.q[0];
    const double u = std::floor(uniform(first, bug.verified_with) * 64) / 64;
    const double ratio = p[0].probability(x) / q.probability(x);
    if (survives(u, p[0].probability(x), q.probability(x)) || (bug.keeps_at_equality && u == ratio)) {
      result.accepted = {0};
      return result;
    }
    Distribution residual = p[0];
    double total = 0;
    for (std::size_t i = 0; i < residual.ids.size(); ++i) {
      double& left = residual.probabilities[i];
      if (!bug.residual_is_p) left = std::fmax(0, left - q.probability(residual.ids[i]));
      total += left;
    }
    if (!bug.residual_not_normalised) {
      for (double& left : residual.probabilities) left /= total;
    }
    result.added_token = sample_inverse_cdf(residual, uniform(first, RandomPurpose::kResidual));
    return result;
  };
}

// Ratios 1/2, 3, 5/2, 1/2 and 0; the residual has two tokens, so that its scale shows.
OneStep grid_step() {
  return {{{0, 1, 2, 3}, {0.25, 0.375, 0.3125, 0.0625}}, {{0, 1, 2, 3, 4}, {0.5, 0.125, 0.125, 0.125, 0.125}}};
}

TEST(OneStepDistributionTest, TheRuleWrittenTwiceFollowsP) {
  EXPECT_GT(one_step_p_value(grid_step(), one_step_rule({})), kSignificance);
  EXPECT_GT(one_step_p_value(grid_step(), reject), kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlKeepingAtEqualityIsCaught) {
  EXPECT_LT(one_step_p_value(grid_step(), one_step_rule({.keeps_at_equality = true})), kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlResidualFromPIsCaught) {
  EXPECT_LT(one_step_p_value(grid_step(), one_step_rule({.residual_is_p = true})), kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlUnnormalisedResidualIsCaught) {
  EXPECT_LT(one_step_p_value(grid_step(), one_step_rule({.residual_not_normalised = true})), kSignificance);
}

TEST(OneStepDistributionTest, NegativeControlVerifyingWithTheDraftsOwnNoiseIsCaught) {
  EXPECT_LT(one_step_p_value(grid_step(), one_step_rule({.verified_with = RandomPurpose::kDraft})), kSignificance);
}

// ---- a whole block: the joint distribution is the product of the target's conditionals --------------------------

constexpr std::uint32_t kVocab = 5;

std::size_t cell_of(const ToyDecoder::Block& block) {
  std::size_t cell = 0;
  for (const std::int32_t token : block) cell = cell * kVocab + static_cast<std::size_t>(token);
  return cell;
}

double probability_of(std::size_t cell, const ToyModel& target, std::int32_t last_token) {
  ToyDecoder::Block block{};
  for (std::size_t i = block.size(); i-- > 0; cell /= kVocab) block[i] = static_cast<std::int32_t>(cell % kVocab);
  double probability = 1;
  for (const std::int32_t token : block) {
    probability *= target.next[static_cast<std::size_t>(last_token)].probability(token);
    last_token = token;
  }
  return probability;
}

double block_p_value(const ToyModel& target, ToyDecoder decoder, std::int64_t n_draws = kDraws) {
  constexpr std::int32_t kLastToken = 2;
  std::vector<std::int64_t> counts(kVocab * kVocab * kVocab * kVocab);
  for (std::int64_t draw = 0; draw < n_draws; ++draw) {
    ++counts[cell_of(decoder.decode(static_cast<std::uint64_t>(draw), kLastToken))];
  }
  std::vector<double> distribution(counts.size());
  for (std::size_t cell = 0; cell < distribution.size(); ++cell)
    distribution[cell] = probability_of(cell, target, kLastToken);
  return chi_square_p_value(counts, distribution);
}

class BlockDistributionTest : public ::testing::Test {
 protected:
  ToyModel target_ = ToyModel::random(kVocab, 7);
  ToyDraft chain_{ToyModel::random(kVocab, 8), DrawMethod::kSampled, kChain};
};

TEST_F(BlockDistributionTest, RejectionOnAChain) {
  EXPECT_GT(block_p_value(target_, {target_, chain_, reject}, kManyDraws), kSignificance);
}

TEST_F(BlockDistributionTest, RejectionOfDeterministicTokens) {
  chain_.draw_method = DrawMethod::kDeterministic;
  EXPECT_GT(block_p_value(target_, {target_, chain_, reject}), kSignificance);
}

TEST_F(BlockDistributionTest, RejectionUnderTopPAndTemperature) {
  const SamplingParams params{.temperature = 0.8F, .top_p = 0.85F};
  target_.transform(params);
  chain_.model.transform(params);
  EXPECT_GT(block_p_value(target_, {target_, chain_, reject}), kSignificance);
}

TEST_F(BlockDistributionTest, CoupledOnAChain) {
  chain_.draw_method = DrawMethod::kGumbel;
  EXPECT_GT(block_p_value(target_, {target_, chain_, couple}, kManyDraws), kSignificance);
}

TEST_F(BlockDistributionTest, NegativeControlStaleQIsCaught) {
  const ToyModel older = ToyModel::random(kVocab, 9);
  const Tamper stale = [&](Proposal& proposal, std::int32_t last_token) {
    for (std::size_t node = 0; node < proposal.size(); ++node) {
      const std::int32_t state = node == 0 ? last_token : proposal.tokens[node - 1];
      proposal.q[node] = older.next[static_cast<std::size_t>(state)];
    }
  };
  EXPECT_LT(block_p_value(target_, {target_, chain_, reject, stale}), kSignificance);
}

TEST_F(BlockDistributionTest, NegativeControlQAtAnotherTemperatureIsCaught) {
  ToyModel cooler = chain_.model;
  cooler.transform({.temperature = 0.7F});
  const Tamper retempered = [&](Proposal& proposal, std::int32_t last_token) {
    for (std::size_t node = 0; node < proposal.size(); ++node) {
      proposal.q[node] = cooler.next[static_cast<std::size_t>(node == 0 ? last_token : proposal.tokens[node - 1])];
    }
  };
  EXPECT_LT(block_p_value(target_, {target_, chain_, reject, retempered}), kSignificance);
}

TEST_F(BlockDistributionTest, NegativeControlMissingBonusTokenIsCaught) {
  // All tokens accepted, and the last proposed token again in place of the target's bonus token.
  const Rule without_bonus = [](const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
    VerifyResult result = reject(proposal, p, first);
    if (result.accepted.size() == proposal.size()) result.added_token = proposal.tokens.back();
    return result;
  };
  EXPECT_LT(block_p_value(target_, {target_, chain_, without_bonus}), kSignificance);
}

// ---- trees --------------------------------------------------------------------------------------------------------

class TreeDistributionTest : public BlockDistributionTest {
 protected:
  // Three children of the root, two below the first, one below the second, one grandchild.
  ToyDraft tree_{ToyModel::random(kVocab, 8), DrawMethod::kSampled, {-1, -1, -1, 0, 0, 1, 3}};
};

TEST_F(TreeDistributionTest, SiblingsDrawnWithReplacement) {
  EXPECT_GT(block_p_value(target_, {target_, tree_, reject}), kSignificance);
}

TEST_F(TreeDistributionTest, SiblingsDrawnWithoutReplacement) {
  tree_.without_replacement = true;
  EXPECT_GT(block_p_value(target_, {target_, tree_, reject}), kSignificance);
}

TEST_F(TreeDistributionTest, DeterministicSiblings) {
  tree_.draw_method = DrawMethod::kDeterministic;
  EXPECT_GT(block_p_value(target_, {target_, tree_, reject}), kSignificance);
}

TEST_F(TreeDistributionTest, CoupledTree) {
  tree_.draw_method = DrawMethod::kDeterministic;
  EXPECT_GT(block_p_value(target_, {target_, tree_, couple}), kSignificance);
}

TEST_F(TreeDistributionTest, MoreSiblingsAreKeptMoreOften) {
  const auto kept = [&](const std::vector<std::int32_t>& parents) {
    const ToyDraft draft{chain_.model, DrawMethod::kSampled, parents, /*without_replacement=*/true};
    ToyDecoder decoder(target_, draft, reject);
    for (std::uint64_t seed = 0; seed < 20000; ++seed) decoder.decode(seed, 2);
    return static_cast<double>(decoder.accepted()) / static_cast<double>(decoder.tested());
  };
  const double one = kept({-1}), two = kept({-1, -1}), three = kept({-1, -1, -1});
  EXPECT_GT(two, one + 0.02);
  EXPECT_GT(three, two + 0.02);
}

TEST_F(TreeDistributionTest, NegativeControlUnconditionalQOfDistinctSiblingsIsCaught) {
  tree_.without_replacement = true;
  const Tamper unconditional = [&](Proposal& proposal, std::int32_t last_token) {
    for (std::size_t node = 0; node < proposal.size(); ++node) {
      const std::int32_t parent = proposal.parents[node];
      const std::int32_t state = parent < 0 ? last_token : proposal.tokens[static_cast<std::size_t>(parent)];
      proposal.q[node] = tree_.model.next[static_cast<std::size_t>(state)];
    }
  };
  EXPECT_LT(block_p_value(target_, {target_, tree_, reject, unconditional}), kSignificance);
}

TEST_F(TreeDistributionTest, NegativeControlDroppingNodesForTheirTokenIsCaught) {
  // Pruning a sampled chain by the probability of the drawn token, which acceptance.h forbids.
  const Rule pruned = [](const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
    if (proposal.q[0].probability(proposal.tokens[0]) < 0.25) return reject(Proposal{}, p.first(1), first);
    return reject(proposal, p, first);
  };
  EXPECT_LT(block_p_value(target_, {target_, chain_, pruned}), kSignificance);
}

// ---- how often proposals are kept -----------------------------------------------------------------------------------

struct AcceptanceCount {
  std::int64_t accepted = 0, tested = 0;
};

AcceptanceCount count_accepted(const Distribution& p, const Distribution& q, DrawMethod draw_method, const Rule& rule) {
  Proposal proposal;
  proposal.tokens = {0};
  proposal.parents = {-1};
  proposal.draw_method = draw_method;
  proposal.q = {q};
  const std::vector<Distribution> rows{p, p};
  AcceptanceCount count;
  for (std::uint32_t draw = 0; draw < kManyDraws; ++draw) {
    const RandomAddress at{.seed = 4242, .output_index = 2 * draw};
    proposal.tokens[0] = draw_method == DrawMethod::kGumbel ? sample_gumbel(q, at)
                                                            : sample_inverse_cdf(q, uniform(at, RandomPurpose::kDraft));
    count.accepted += static_cast<std::int64_t>(rule(proposal, rows, at).accepted.size());
    ++count.tested;
  }
  return count;
}

double overlap(const Distribution& p, const Distribution& q) {
  double sum = 0;
  for (std::size_t i = 0; i < p.ids.size(); ++i) sum += std::fmin(p.probabilities[i], q.probability(p.ids[i]));
  return sum;
}

double rejection_rate_p_value(const Distribution& told_q) {
  const Rule told = [&](const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
    Proposal retold = proposal;
    retold.q = {told_q};
    return reject(retold, p, first);
  };
  const AcceptanceCount count = count_accepted(kP, kQ, DrawMethod::kSampled, told);
  return testing::binomial_p_value(count.accepted, count.tested, overlap(kP, kQ));
}

TEST(AcceptanceRateTest, RejectionKeepsTheOverlap) {
  EXPECT_GT(rejection_rate_p_value(kQ), kSignificance);
}

TEST(AcceptanceRateTest, NegativeControlStaleQChangesTheRate) {
  EXPECT_LT(rejection_rate_p_value({{0, 1, 2, 3, 4}, {0.15, 0.3, 0.25, 0.05, 0.25}}), kSignificance);
}

// (1 − TV) / (1 + TV), the bound of Gumbel coupling (drafter-invariant decoding, arXiv 2408.07978).
double coupled_shortfall_p_value(DrawMethod draw_method) {
  const double agreement = overlap(kP, kQ);
  const AcceptanceCount count = count_accepted(kP, kQ, draw_method, couple);
  return testing::binomial_lower_tail(count.accepted, count.tested, agreement / (2 - agreement));
}

TEST(AcceptanceRateTest, SharedNoiseKeepsAtLeastTheBound) {
  EXPECT_GT(coupled_shortfall_p_value(DrawMethod::kGumbel), kSignificance);
}

TEST(AcceptanceRateTest, NegativeControlNoiseOfItsOwnFallsShortOfTheBound) {
  EXPECT_LT(coupled_shortfall_p_value(DrawMethod::kSampled), kSignificance);
}

}  // namespace
}  // namespace slip
