// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/draft_scorer.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/sampling/distribution.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::kTinyVocab;
using testing::tiny_config;
using testing::tiny_weights;

double draw(std::uint64_t seed, std::uint32_t index) {
  return uniform(RandomAddress{seed, 0, index}, RandomPurpose::kDraft);
}

std::vector<float> random_logits(std::uint64_t seed, int n, double spread) {
  std::vector<float> logits;
  for (int i = 0; i < n; ++i) {
    logits.push_back(static_cast<float>(spread * gumbel(RandomAddress{seed}, static_cast<std::uint32_t>(i))));
  }
  return logits;
}

TopK top_of(const std::vector<float>& logits, int k) {
  std::vector<TokenLogprob> best;
  top_logprobs(logits, k, best);
  TopK top;
  double mass = 0;
  for (const TokenLogprob& entry : best) {
    top.ids.push_back(entry.id);
    top.logprobs.push_back(entry.logprob);
    mass += std::exp(entry.logprob);
  }
  top.log_tail = best.size() == logits.size() ? -INFINITY : static_cast<float>(std::log1p(-std::min(mass, 1.0)));
  return top;
}

// ---- the walk

// k = 2 along x 1 1 0 1 1 1 0: the prompt gives token 0; 1 and 2 accepted with bonus 3; 4 and 5 accepted with bonus 6;
// 7 refused. Four steps.
TEST(WalkChain, AHandWorkedExample) {
  const std::vector<double> accept = {1, 1, 1, 0, 1, 1, 1, 0};
  const AcceptanceScore score = walk_chain(accept, 2);
  EXPECT_EQ(score.accepted, 4);
  EXPECT_EQ(score.first_rejections, 1);
  EXPECT_EQ(score.steps, 4);
  EXPECT_EQ(score.tokens, 8);
  EXPECT_DOUBLE_EQ(score.alpha(), 0.8);
  EXPECT_DOUBLE_EQ(score.accepted_length(), 2);
}

TEST(WalkChain, WithoutDraftingEveryTokenIsAStep) {
  const AcceptanceScore score = walk_chain(std::vector<double>(9, 1.0), 0);
  EXPECT_EQ(score.steps, 9);
  EXPECT_EQ(score.accepted + score.first_rejections, 0);
}

TEST(WalkChain, ProposalsEndWithTheAnswer) {
  EXPECT_EQ(walk_chain(std::vector<double>(4, 1.0), 8).accepted, 3);
  EXPECT_EQ(walk_chain(std::vector<double>(4, 1.0), 8).steps, 2);
  EXPECT_EQ(walk_chain(std::vector<double>(1, 1.0), 3).steps, 1);
  EXPECT_EQ(walk_chain({}, 3).steps, 0);
}

// With probabilities the walk gives an expectation; compares it with the mean of many random walks.
TEST(WalkChain, IsTheMeanOfManyWalks) {
  std::vector<double> accept;
  for (std::uint32_t i = 0; i < 30; ++i) accept.push_back(draw(5, i));
  const AcceptanceScore expected = walk_chain(accept, 3);
  AcceptanceScore sum;
  constexpr int kWalks = 20'000;
  std::uint32_t at = 100;
  for (int walk = 0; walk < kWalks; ++walk) {
    std::size_t i = 1;
    sum.steps += 1;
    while (i < accept.size()) {
      sum.steps += 1;
      int drafted = 0;
      while (drafted < 3 && i < accept.size() && draw(6, at++) < accept[i]) {
        sum.accepted += 1;
        ++drafted;
        ++i;
      }
      if (drafted < 3 && i < accept.size()) sum.first_rejections += 1;
      ++i;
    }
  }
  EXPECT_NEAR(sum.accepted / kWalks, expected.accepted, 0.06);
  EXPECT_NEAR(sum.first_rejections / kWalks, expected.first_rejections, 0.06);
  EXPECT_NEAR(sum.steps / kWalks, expected.steps, 0.06);
}

// ---- the overlap

class OverlapTest : public ::testing::TestWithParam<SamplingParams> {};

double exact_overlap(const std::vector<float>& p_logits, const Distribution& q, const SamplingParams& sampling) {
  Distribution p;
  transform_logits(p_logits, sampling, {}, p);
  double sum = 0;
  for (std::size_t i = 0; i < p.ids.size(); ++i) sum += std::min(p.probabilities[i], q.probability(p.ids[i]));
  return sum;
}

TEST_P(OverlapTest, WithTheWholeVocabularyStoredItIsExact) {
  const SamplingParams sampling = GetParam();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto p = random_logits(seed, 60, 1.5);
    Distribution q;
    transform_logits(random_logits(seed + 100, 60, 1.5), sampling, {}, q);
    const RowOverlap found = overlap(top_of(p, 60), sampling, q, 60);
    EXPECT_NEAR(found.accepted, exact_overlap(p, q, sampling), 1e-5);
    EXPECT_NEAR(found.captured, 1, 1e-9);
  }
}

// p's tail counts as rejected: the overlap is never above the true one, and below it by at most the tail's mass.
TEST_P(OverlapTest, WithATailItIsALowerBound) {
  const SamplingParams sampling = GetParam();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto p = random_logits(seed, 200, 1.5);
    Distribution q;
    transform_logits(random_logits(seed + 100, 200, 1.5), sampling, {}, q);
    const RowOverlap found = overlap(top_of(p, 32), sampling, q, 200);
    const double exact = exact_overlap(p, q, sampling);
    EXPECT_LE(found.accepted, exact + 1e-6);
    EXPECT_GE(found.accepted, exact - (1 - found.captured) - 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Transforms, OverlapTest,
                         ::testing::Values(SamplingParams{}, SamplingParams{.temperature = 0.7F},
                                           SamplingParams{.temperature = 1.5F}, SamplingParams{.top_p = 0.8F},
                                           SamplingParams{.top_k = 10}, SamplingParams{.min_p = 0.1F},
                                           SamplingParams{.min_p = 0.002F},
                                           SamplingParams{.temperature = 1.3F, .top_p = 0.9F, .min_p = 0.02F},
                                           SamplingParams{.temperature = 0.8F, .top_p = 0.9F, .top_k = 20},
                                           SamplingParams{.top_k = 40}));

TEST(Overlap, ADraftEqualToTheTargetIsAcceptedUpToTheTail) {
  const auto logits = random_logits(3, 100, 2);
  Distribution q;
  transform_logits(logits, {}, {}, q);
  const RowOverlap found = overlap(top_of(logits, 32), {}, q, 100);
  EXPECT_NEAR(found.accepted, found.captured, 1e-5);
  EXPECT_LT(found.captured, 1);
}

TEST(RawOverlap, IsTheOverlapAtTemperatureOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto p = random_logits(seed, 200, 1.5), logits = random_logits(seed + 100, 200, 1.5);
    Distribution q;
    transform_logits(logits, {}, {}, q);
    EXPECT_NEAR(raw_overlap(top_of(p, 32), logits), overlap(top_of(p, 32), {}, q, 200).accepted, 1e-5);
  }
  EXPECT_EQ(raw_overlap({}, std::vector<float>{1, 2, 3}), 0);
}

// The known error of smooth counts: a draft that is surer of the same token overlaps more, and no more is accepted.
TEST(RawOverlap, GrowsWithADraftThatIsSurer) {
  TopK sure;
  sure.ids = {1};
  sure.logprobs = {-0.01F};
  EXPECT_GT(raw_overlap(sure, std::vector<float>{0, 2, 0}), raw_overlap(sure, std::vector<float>{0, 1, 0}) + 0.1);
}

// ---- the scorer

// The draft's own next token after `tokens`, computed row by row the way serving does.
class PlainDraft {
 public:
  explicit PlainDraft(const ModelWeights& weights)
      : weights_(weights),
        transformer_(weights.config, pool_),
        workspace_(weights.config, 1, 1),
        cache_(weights.config, weights.dtype, 32) {}

  std::int32_t next(const std::vector<std::int32_t>& tokens, const ReplayRecord& record, std::uint32_t output_index) {
    PageTable pages(cache_);
    EXPECT_TRUE(pages.reserve(static_cast<std::int32_t>(tokens.size())));
    std::vector<float> logits(static_cast<std::size_t>(weights_.config.vocab_size));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::int32_t position = static_cast<std::int32_t>(i);
      const std::int32_t row_begin[] = {0, 1};
      const std::int32_t wanted[] = {0};
      const KvView kv[] = {{.pages = &pages, .n_cached = position}};
      StepInput input;
      input.tokens = std::span(&tokens[i], 1);
      input.positions = std::span(&position, 1);
      input.row_begin = row_begin;
      input.kv = kv;
      input.logit_rows = wanted;
      StepOutput output;
      output.logits = TensorView::contiguous(logits.data(), {1, weights_.config.vocab_size});
      const ModelWeights* const weight_sets[] = {&weights_};
      transformer_.forward(weight_sets, input, cache_, workspace_, output);
    }
    Distribution q;
    transform_logits(logits, record.sampling, {}, q);
    return sample_gumbel(q, {record.seed, record.choice, output_index});
  }

 private:
  const ModelWeights& weights_;
  kernels::ThreadPool pool_{1};
  Transformer transformer_;
  Workspace workspace_;
  PagePool cache_;
};

// Simulated serving: drafts k tokens, compares them with the target's answer, and takes the correction or the bonus
// token.
AcceptanceScore serve(PlainDraft& draft, const ReplayRecord& record, int k) {
  AcceptanceScore score;
  const std::size_t prompt = static_cast<std::size_t>(record.prompt_tokens);
  const std::size_t n = record.target.size();
  score.tokens = static_cast<double>(n);
  score.steps = 1;
  for (std::size_t at = 1; at < n;) {
    score.steps += 1;
    std::vector<std::int32_t> context(record.tokens.begin(),
                                      record.tokens.begin() + static_cast<std::ptrdiff_t>(prompt + at));
    for (int i = 0; i < k && at < n; ++i) {
      const std::int32_t proposed = draft.next(context, record, static_cast<std::uint32_t>(at));
      if (proposed != record.tokens[prompt + at]) {
        score.first_rejections += 1;
        break;
      }
      score.accepted += 1;
      context.push_back(proposed);
      ++at;
    }
    ++at;  // the target's own
  }
  return score;
}

// Answers that the draft partly predicts: its own greedy or seeded tokens, with every third one replaced.
ReplayRecord half_known(PlainDraft& draft, std::uint64_t id, float temperature, int answer) {
  ReplayRecord record = answered(id, 6, 0);
  record.sampling.temperature = temperature;
  record.rule = AcceptanceRule::kCoupled;
  record.choice = 2;
  for (int i = 0; i < answer; ++i) {
    std::int32_t token = draft.next(record.tokens, record, static_cast<std::uint32_t>(i));
    if (testing::number_at(id, static_cast<std::uint32_t>(i), 3) == 0) token = (token + 1) % kTinyVocab;
    record.tokens.push_back(token);
    record.target.push_back(testing::falling_top_k(token, kTinyVocab, 8));
  }
  return record;
}

class DraftScorerTest : public ::testing::Test {
 protected:
  kernels::ThreadPool pool_{1};
  DraftScorer scorer_{tiny_config(), 256, pool_};
};

TEST_F(DraftScorerTest, GreedyAndCoupledScoresAreExactlyWhatServingCounts) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    const auto weights = tiny_weights(4, dtype);
    PlainDraft plain(*weights);
    for (const float temperature : {0.0F, 0.8F}) {
      const ReplayRecord record = half_known(plain, 12, temperature, 90);  // over a chunk's 64 rows
      for (const int k : {1, 3, 8}) {
        const AcceptanceScore served = serve(plain, record, k);
        const AcceptanceScore scored = scorer_.score(*weights, record, k);
        EXPECT_EQ(scored.accepted, served.accepted);
        EXPECT_EQ(scored.first_rejections, served.first_rejections);
        EXPECT_EQ(scored.steps, served.steps);
        EXPECT_GT(scored.alpha(), 0.3);
        EXPECT_LT(scored.alpha(), 0.95);
      }
    }
  }
}

TEST_F(DraftScorerTest, NegativeATextTheDraftDoesNotKnowScoresLow) {
  EXPECT_LT(scorer_.score(*tiny_weights(4), answered(12, 6, 60), 3).alpha(), 0.2);
}

TEST_F(DraftScorerTest, SampledTrafficIsScoredByTheOverlap) {
  const auto weights = tiny_weights(4);
  ReplayRecord record = answered(3);
  record.sampling.temperature = 0.8F;
  record.rule = AcceptanceRule::kRejection;
  const AcceptanceScore score = scorer_.score(*weights, record, 3);
  EXPECT_GT(score.alpha(), 0);
  EXPECT_LT(score.alpha(), 0.5);
}

// Where the rule gives 0 or 1, the smooth count takes the overlap; where it gives the expectation, the same.
TEST_F(DraftScorerTest, SmoothStepsAreExpectationsUnderEveryRule) {
  const auto weights = tiny_weights(4);
  PlainDraft plain(*weights);
  for (const float temperature : {0.0F, 0.8F}) {
    ReplayRecord record = half_known(plain, 12, temperature, 90);
    const double smooth = scorer_.score(*weights, record, 3).smooth_steps;
    EXPECT_NE(smooth, std::floor(smooth));
    EXPECT_GT(smooth, 90 / 4.0);
    EXPECT_LT(smooth, 90);
    record.seed += 1;
    EXPECT_EQ(scorer_.score(*weights, record, 3).smooth_steps, smooth) << "no draw enters it";
  }
  ReplayRecord sampled = answered(3);
  sampled.sampling.temperature = 0.8F;
  sampled.rule = AcceptanceRule::kRejection;
  const AcceptanceScore score = scorer_.score(*weights, sampled, 3);
  EXPECT_EQ(score.smooth_steps, score.steps);
}

// A repetitive answer, scored with a draft that does not predict it.
TEST_F(DraftScorerTest, APromptLookupIsScoredAsItServes) {
  ReplayRecord record = answered(12, 6, 0);
  record.rule = AcceptanceRule::kCoupled;
  for (int i = 0; i < 60; ++i) {
    record.tokens.push_back(1 + i % 4);
    record.target.push_back(testing::falling_top_k(1 + i % 4, kTinyVocab, 8));
  }
  const auto weights = tiny_weights(4);
  DraftScorer with_lookup(tiny_config(), 256, pool_, /*prompt_lookup=*/true);
  for (const AcceptanceRule rule : {AcceptanceRule::kCoupled, AcceptanceRule::kRejection}) {
    for (const float temperature : {0.0F, 0.8F}) {
      record.rule = rule;
      record.sampling.temperature = temperature;
      const AcceptanceScore alone = scorer_.score(*weights, record, 3);
      const AcceptanceScore both = with_lookup.score(*weights, record, 3);
      EXPECT_LT(alone.alpha(), 0.3);
      EXPECT_GT(both.alpha(), alone.alpha() + 0.2);
      EXPECT_EQ(both.alone, alone.alone);
      EXPECT_EQ(alone.rows, 60);
    }
  }
}

TEST_F(DraftScorerTest, BeyondTheDraftsContextNothingIsDrafted) {
  const auto weights = tiny_weights(4);
  const ReplayRecord record = answered(3, 200, 100);
  const AcceptanceScore score = scorer_.score(*weights, record, 3);
  EXPECT_EQ(score.tokens, 100);
  EXPECT_LE(score.accepted + score.first_rejections, 57);
  EXPECT_GE(score.steps, 43);
  const AcceptanceScore all_prompt = scorer_.score(*weights, answered(3, 300, 10), 3);
  EXPECT_EQ(all_prompt.accepted + all_prompt.first_rejections, 0);
  EXPECT_EQ(all_prompt.steps, 10);
}

}  // namespace
}  // namespace slip
