// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/acceptance.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/engine/speculative/accept_given.h"
#include "tests/engine/speculative/toy_decoding.h"

namespace slip {
namespace {

using testing::couple;
using testing::reject;
using testing::ToyDecoder;
using testing::ToyDraft;
using testing::ToyModel;

// The first output index at which u (accept, rank 0) and v (residual) are in the worked example's ranges.
RandomAddress address_where(double u_low, double u_high, double v_low, double v_high) {
  RandomAddress at{.seed = 2024};
  while (true) {
    const double u = uniform(at, RandomPurpose::kAccept), v = uniform(at, RandomPurpose::kResidual);
    if (u >= u_low && u < u_high && v >= v_low && v < v_high) return at;
    ++at.output_index;
  }
}

// p = (.2, .5, .3), q = (.6, .1, .3), the draft drew token 0: kept while u < .2/.6 = 1/3; else the residual is
// norm(max(0, (−.4, .4, 0))) = token 1.
class WorkedExample : public ::testing::Test {
 protected:
  WorkedExample() {
    proposal_.tokens = {0};
    proposal_.parents = {-1};
    proposal_.draw_method = DrawMethod::kSampled;
    proposal_.q = {{{0, 1, 2}, {0.6, 0.1, 0.3}}};
  }
  Proposal proposal_;
  std::vector<Distribution> p_{{{0, 1, 2}, {0.2, 0.5, 0.3}}, {{0, 1, 2}, {0.25, 0.25, 0.5}}};
};

TEST_F(WorkedExample, KeepsBelowTheRatioAndAddsABonus) {
  const VerifyResult result = reject(proposal_, p_, address_where(0.32, 1.0 / 3, 0, 1));
  EXPECT_EQ(result.accepted, std::vector<std::int32_t>{0});
  EXPECT_FALSE(result.rejected_one);
}

TEST_F(WorkedExample, RefusesAboveTheRatioAndDrawsFromTheResidual) {
  for (const double v : {0.0, 0.45, 0.9}) {
    const VerifyResult result = reject(proposal_, p_, address_where(1.0 / 3, 0.35, v, v + 0.1));
    EXPECT_TRUE(result.accepted.empty());
    EXPECT_EQ(result.added_token, 1);
    EXPECT_TRUE(result.rejected_one);
  }
}

TEST_F(WorkedExample, BonusComesFromTheLastNodesDistribution) {
  const auto bonus = [&](double v) {
    RandomAddress at{.seed = 5};
    while (true) {  // u at depth 0, the bonus at depth 1
      const double next = uniform({5, 0, at.output_index + 1}, RandomPurpose::kResidual);
      if (uniform(at, RandomPurpose::kAccept) < 0.3 && next >= v && next < v + 0.05) return reject(proposal_, p_, at);
      ++at.output_index;
    }
  };
  EXPECT_EQ(bonus(0.10).added_token, 0);
  EXPECT_EQ(bonus(0.30).added_token, 1);
  EXPECT_EQ(bonus(0.60).added_token, 2);
}

TEST_F(WorkedExample, ADeterministicProposalIsTestedAgainstOneHot) {
  proposal_.draw_method = DrawMethod::kDeterministic;
  proposal_.q.clear();
  EXPECT_EQ(reject(proposal_, p_, address_where(0.19, 0.2, 0, 1)).accepted.size(), 1U);
  // Refused: p without token 0 is (.625, .375) on tokens 1 and 2.
  EXPECT_EQ(reject(proposal_, p_, address_where(0.2, 0.25, 0.60, 0.62)).added_token, 1);
  EXPECT_EQ(reject(proposal_, p_, address_where(0.2, 0.25, 0.63, 0.65)).added_token, 2);
}

TEST_F(WorkedExample, NothingProposedIsPlainSampling) {
  const Proposal nothing;
  const VerifyResult result = reject(nothing, std::span(p_).first(1), address_where(0, 1, 0.15, 0.19));
  EXPECT_TRUE(result.accepted.empty());
  EXPECT_FALSE(result.rejected_one);
  EXPECT_EQ(result.added_token, 0);
}

TEST_F(WorkedExample, TheNextSiblingIsTestedAgainstTheResidual) {
  // After token 0 is rejected, token 1 has probability 1, so a sibling with token 1 is accepted for any u.
  proposal_.tokens = {0, 1};
  proposal_.parents = {-1, -1};
  proposal_.q.push_back(proposal_.q.front());
  p_.push_back(p_.back());
  EXPECT_EQ(reject(proposal_, p_, address_where(0.34, 1, 0, 1)).accepted, std::vector<std::int32_t>{1});
}

TEST(SurvivesTest, ZeroProbabilityNeverSurvivesAndRatioOneAlwaysDoes) {
  EXPECT_FALSE(survives(0.0, 0.0, 0.5));
  EXPECT_FALSE(survives(0.0, 0.0, 1e-300));
  EXPECT_TRUE(survives(0.0, 1e-300, 1.0));
  EXPECT_TRUE(survives(1 - 0x1.0p-53, 0.5, 0.5));
  EXPECT_TRUE(survives(1 - 0x1.0p-53, 0.5, 1e-310));
}

TEST(GreedyAcceptanceTest, KeepsTheArgmaxUnderEitherRule) {
  const auto hot = [](std::int32_t token) { return Distribution{{token}, {1.0}}; };
  const std::vector<Distribution> p{hot(4), hot(6), hot(1), hot(9)};
  Proposal proposal;
  proposal.tokens = {4, 6, 2};
  proposal.parents = {-1, 0, 1};
  for (const AcceptanceRule rule : {AcceptanceRule::kRejection, AcceptanceRule::kCoupled}) {
    const VerifyResult result = testing::accept_given(proposal, p, rule, {.seed = 1});
    EXPECT_EQ(result.accepted, (std::vector<std::int32_t>{0, 1}));
    EXPECT_EQ(result.added_token, 1);
    EXPECT_TRUE(result.rejected_one);
  }
}

// Bug: accept() failed for an error after any accepted node, also after one that ended the answer, where plain
// decoding meets none.
TEST(ErrorsOfAcceptanceTest, AnAcceptedNodeWithoutADistributionBehindItIsTheLastToken) {
  const auto hot = [](std::int32_t token) { return Distribution{{token}, {1.0}}; };
  const std::vector<Distribution> p{hot(4), hot(1), hot(6), hot(9)};
  Proposal proposal;  // 5 or 4, and 6 below 4
  proposal.tokens = {5, 4, 6};
  proposal.parents = {-1, -1, 1};
  for (const AcceptanceRule rule : {AcceptanceRule::kRejection, AcceptanceRule::kCoupled}) {
    std::int32_t broken = -1;
    const TargetDistribution p_after = [&](std::int32_t node) -> const Distribution& {
      if (node == broken) throw broken_logits();
      return p[static_cast<std::size_t>(node + 1)];
    };
    VerifyResult result;
    EXPECT_THROW(accept(proposal, p_after, rule, {.seed = 1}, result), Error);
    broken = 1;
    accept(proposal, p_after, rule, {.seed = 1}, result);
    EXPECT_TRUE(result.accepted.empty());
    EXPECT_EQ(result.added_token, 4);
    EXPECT_TRUE(result.rejected_one) << "its first choice";
    broken = 2;
    accept(proposal, p_after, rule, {.seed = 1}, result);
    EXPECT_EQ(result.accepted, std::vector<std::int32_t>{1});
    EXPECT_EQ(result.added_token, 6);
    EXPECT_FALSE(result.rejected_one);
    broken = 0;
    accept(proposal, p_after, rule, {.seed = 1}, result);
    EXPECT_EQ(result.accepted, (std::vector<std::int32_t>{1, 2})) << "an error after a rejected node is never met";
    EXPECT_EQ(result.added_token, 9);
  }
}

// The tokens a seed gives without any draft.
ToyDecoder::Block plain(const ToyModel& target, std::uint64_t seed, std::int32_t last) {
  ToyDecoder::Block block{};
  for (std::uint32_t i = 0; i < block.size(); ++i) {
    last = block[i] = sample_gumbel(target.next[static_cast<std::size_t>(last)], {.seed = seed, .output_index = i});
  }
  return block;
}

TEST(CoupledAcceptanceTest, OutputIsAFunctionOfTheSeedAlone) {
  const ToyModel target = ToyModel::random(30, 1), near = ToyModel::random(30, 1, 1.5F), far = ToyModel::random(30, 2);
  const std::vector<ToyDraft> drafts{{near, DrawMethod::kGumbel, {}},
                                     {near, DrawMethod::kGumbel, {-1}},
                                     {near, DrawMethod::kGumbel, {-1, 0, 1}},
                                     {far, DrawMethod::kGumbel, {-1, 0, 1, 2, 3, 4, 5, 6}},
                                     {far, DrawMethod::kDeterministic, {-1, -1, 0, 0, 1}},
                                     {near, DrawMethod::kSampled, {-1, -1, -1, 0, 1}}};
  for (const ToyDraft& draft : drafts) {
    ToyDecoder decoder(target, draft, couple);
    for (std::uint64_t seed = 0; seed < 2000; ++seed) ASSERT_EQ(decoder.decode(seed, 3), plain(target, seed, 3));
  }
}

using AcceptanceDeathTest = WorkedExample;

TEST_F(AcceptanceDeathTest, RefusesWhatOnlyABugCanAsk) {
  proposal_.draw_method = DrawMethod::kGumbel;
  EXPECT_DEATH(reject(proposal_, p_, {}), "coupled");
  proposal_.draw_method = DrawMethod::kSampled;
  proposal_.q[0] = {{1, 2}, {0.5, 0.5}};
  EXPECT_DEATH(reject(proposal_, p_, {}), "not drawn from the q");
  proposal_.parents = {0};
  EXPECT_DEATH(reject(proposal_, p_, {}), "after their parents");
}

}  // namespace
}  // namespace slip
