// SPDX-License-Identifier: Apache-2.0
// Speculation must not change the distribution of unseeded answers, whatever the sampling parameters. Compares answers
// of the engine with the distribution by the definitions. The negative controls read a parameter wrongly, or plant a
// bug in the row that verifies a proposal, and must be detected.
#include <gtest/gtest.h>

#include "engine/speculative/acceptance.h"
#include "engine/speculative/token_path.h"
#include "tests/engine/answer_distribution.h"
#include "tests/engine/goodness_of_fit.h"
#include "tests/engine/sampling_parameters.h"

namespace slip {
namespace {

using testing::alone_and_in_pairs;
using testing::answer_distribution;
using testing::chi_square_p_value;
using testing::count_answers;
using testing::distribution_cell;
using testing::distribution_language;
using testing::distribution_proposer;
using testing::kDistributionCells;
using testing::kDistributionEnd;
using testing::kDistributionEnds;
using testing::kDistributionPrompt;
using testing::kDistributionTokens;
using testing::kSignificance;
using testing::Misreading;
using testing::NamedSampling;
using testing::ToyLanguage;

TEST(SamplingDistribution, EveryParameterAloneAndInPairsKeepsTheTargetsDistribution) {
  for (const NamedSampling& one : alone_and_in_pairs()) {
    const auto counts = count_answers(one.sampling, distribution_proposer(), {.n = 8000});
    EXPECT_GT(chi_square_p_value(counts, answer_distribution(one.sampling)), kSignificance) << one.name;
  }
}

TEST(SamplingDistribution, AllParametersAtOnceInATree) {
  SamplingParams all{.temperature = 1.3F,
                     .top_p = 0.97F,
                     .top_k = 3,
                     .min_p = 0.05F,
                     .repetition_penalty = 1.3F,
                     .presence_penalty = -0.7F,
                     .frequency_penalty = 0.9F,
                     .logit_bias = {{2, 0.5F}},
                     .min_tokens = 1};
  const auto counts = count_answers(all, distribution_proposer({.likeness = 0.7, .width = 2}));
  EXPECT_GT(chi_square_p_value(counts, answer_distribution(all)), kSignificance);
}

TEST(SamplingDistributionNegative, EveryParameterIsSeen) {
  for (const NamedSampling& one : alone_and_in_pairs()) {
    if (one.name.find(' ') != std::string::npos) continue;
    const auto counts = count_answers(one.sampling, distribution_proposer());
    EXPECT_LT(chi_square_p_value(counts, answer_distribution({})), kSignificance) << one.name;
  }
}

TEST(SamplingDistributionNegative, EveryMisreadingIsToldFromTheEngine) {
  const std::vector<std::pair<Misreading, SamplingParams>> cases = {
      {Misreading::kRepetitionSparesThePrompt, {.repetition_penalty = 1.8F}},
      {Misreading::kRepetitionDividesAll, {.repetition_penalty = 1.8F}},
      {Misreading::kPresenceCountsThePrompt, {.presence_penalty = 1}},
      {Misreading::kFrequencyCountsOnce, {.frequency_penalty = -1.2F}},
      {Misreading::kPenaltiesLagByOne, {.frequency_penalty = 1.2F}},
      {Misreading::kPenaltiesLagByOne, {.presence_penalty = 1.5F}},
      {Misreading::kPenaltiesLagByOne, {.repetition_penalty = 1.8F}},
      {Misreading::kBiasAfterTemperature, {.temperature = 0.6F, .logit_bias = {{0, 1}}}},
      {Misreading::kMinPBeforeTemperature, {.temperature = 0.6F, .min_p = 0.35F}},
      {Misreading::kMinPOfMass, {.min_p = 0.3F}},
      {Misreading::kMinTokensOffByOne, {.min_tokens = 2}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [misreading, sampling] = cases[i];
    const auto counts = count_answers(sampling, distribution_proposer());
    EXPECT_GT(chi_square_p_value(counts, answer_distribution(sampling)), kSignificance) << i;
    EXPECT_LT(chi_square_p_value(counts, answer_distribution(sampling, misreading)), kSignificance) << i;
  }
}

// ---- the verifying row in miniature: what the engine's step does for one sequence, with room for a bug --------------

enum class Planted {
  kNone,
  kBlindDraft,   // q ignores the proposed tokens before it, consistently: lowers acceptance, not correctness
  kBlindTarget,  // p ignores the proposed tokens
  kLateTarget,   // p ignores the last proposed token
  kToldBlind,    // tokens are drawn with the path, but the reported q ignores it
  kFilterOnlyQ,  // the parameters cut q, while p keeps its tail
  kEndsAllowed,  // p forgets that the proposal's own tokens count towards min_tokens
};

class Miniature {
 public:
  Miniature(SamplingParams sampling, Planted bug) : sampling_(std::move(sampling)), bug_(bug) {
    other_.seed += 1000;
    sampling_.seed = 1;
  }

  std::vector<std::int32_t> answer(std::uint64_t seed) {
    tokens_ = kDistributionPrompt;
    while (!ended()) {
      const RandomAddress first{seed, 0, static_cast<std::uint32_t>(n_answer())};
      propose(first);
      const TargetDistribution p_after = [&](std::int32_t node) -> const Distribution& {
        return target_distribution(node);
      };
      VerifyResult result;
      accept(proposal_, p_after, AcceptanceRule::kRejection, first, result);
      for (const std::int32_t node : result.accepted) commit(proposal_.tokens[static_cast<std::size_t>(node)]);
      commit(result.added_token);
    }
    return {tokens_.begin() + static_cast<std::ptrdiff_t>(kDistributionPrompt.size()), tokens_.end()};
  }

 private:
  std::size_t n_answer() const { return tokens_.size() - kDistributionPrompt.size(); }
  bool ended() const {
    return n_answer() == kDistributionTokens || (n_answer() > 0 && tokens_.back() == kDistributionEnd);
  }
  void commit(std::int32_t token) {
    if (!ended()) tokens_.push_back(token);
  }
  RowContext context(std::span<const std::int32_t> path) const {
    return {path, static_cast<std::int32_t>(kDistributionPrompt.size()), kDistributionEnds};
  }

  void propose(const RandomAddress& first) {
    proposal_.clear();
    proposal_.draw_method = DrawMethod::kSampled;
    for (std::int32_t depth = 0; depth < 2; ++depth) {
      write_token_path(tokens_, proposal_, depth - 1, path_);
      auto logits = distribution_language().logits(path_);
      const auto noise = other_.logits(path_);
      for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = (logits[i] + noise[i]) / 2;
      Distribution seeing, blind;
      transform_logits(logits, sampling_, context(path_), seeing);
      transform_logits(logits, sampling_, context(tokens_), blind);
      RandomAddress at = first;
      at.output_index += static_cast<std::uint32_t>(depth);
      const Distribution& drawn = bug_ == Planted::kBlindDraft ? blind : seeing;
      proposal_.tokens.push_back(sample_inverse_cdf(drawn, uniform(at, RandomPurpose::kDraft)));
      proposal_.parents.push_back(depth - 1);
      proposal_.path_logprob.push_back(0);
      proposal_.q.push_back(bug_ == Planted::kToldBlind ? blind : drawn);
    }
  }

  const Distribution& target_distribution(std::int32_t node) {
    write_token_path(tokens_, proposal_, node, path_);
    const auto logits = distribution_language().logits(path_);
    std::span<const std::int32_t> seen = path_;
    SamplingParams sampling = sampling_;
    if (bug_ == Planted::kBlindTarget) seen = tokens_;
    if (bug_ == Planted::kLateTarget && node >= 0) seen = seen.first(seen.size() - 1);
    if (bug_ == Planted::kFilterOnlyQ) sampling = {};
    if (bug_ == Planted::kEndsAllowed && node >= 0) sampling.min_tokens = 0;
    transform_logits(logits, sampling, context(seen), p_);
    return p_;
  }

  SamplingParams sampling_;
  Planted bug_;
  ToyLanguage other_ = distribution_language();
  std::vector<std::int32_t> tokens_, path_;
  Proposal proposal_;
  Distribution p_;
};

double miniature_p_value(const SamplingParams& sampling, Planted bug) {
  Miniature miniature(sampling, bug);
  std::vector<std::int64_t> counts(kDistributionCells);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) ++counts[distribution_cell(miniature.answer(seed))];
  return chi_square_p_value(counts, answer_distribution(sampling));
}

const SamplingParams kRepetition{.repetition_penalty = 1.8F}, kPresence{.presence_penalty = 1.5F},
    kFrequency{.frequency_penalty = 1.2F}, kMinP{.min_p = 0.35F}, kTopK{.top_k = 2}, kTopP{.top_p = 0.8F},
    kMinTokens{.min_tokens = 3};

TEST(RowDistribution, TheMiniatureFollowsTheDistribution) {
  for (const SamplingParams& sampling : {kRepetition, kPresence, kFrequency, kMinP, kTopK, kTopP, kMinTokens}) {
    EXPECT_GT(miniature_p_value(sampling, Planted::kNone), kSignificance);
  }
}

TEST(RowDistribution, ADraftThatIgnoresItsProposalButReportsItsQKeepsTheDistribution) {
  for (const SamplingParams& sampling : {kRepetition, kPresence, kFrequency}) {
    EXPECT_GT(miniature_p_value(sampling, Planted::kBlindDraft), kSignificance);
  }
}

TEST(RowDistributionNegative, PenaltiesThatDoNotFollowTheProposalAreCaught) {
  for (const SamplingParams& sampling : {kRepetition, kPresence, kFrequency}) {
    EXPECT_LT(miniature_p_value(sampling, Planted::kBlindTarget), kSignificance);
    EXPECT_LT(miniature_p_value(sampling, Planted::kLateTarget), kSignificance);
    EXPECT_LT(miniature_p_value(sampling, Planted::kToldBlind), kSignificance);
  }
}

TEST(RowDistributionNegative, CutsOnTheWrongDistributionAreCaught) {
  for (const SamplingParams& sampling : {kMinP, kTopK, kTopP}) {
    EXPECT_LT(miniature_p_value(sampling, Planted::kFilterOnlyQ), kSignificance);
  }
}

TEST(RowDistributionNegative, AMinimumThatForgetsTheProposalIsCaught) {
  EXPECT_LT(miniature_p_value(kMinTokens, Planted::kEndsAllowed), kSignificance);
}

}  // namespace
}  // namespace slip
