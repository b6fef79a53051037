// SPDX-License-Identifier: Apache-2.0
// Speculation changes no bit of an answer: on the toy language, whose every logit depends on every token, slot and
// position before it, the engine's answers equal a plain loop's for every draft length, draft and company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "engine/scheduler/select.h"
#include "engine/speculative/draft_model_proposer.h"
#include "engine/speculative/raw_logits_checksum.h"
#include "tests/engine/answer_distribution.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/goodness_of_fit.h"
#include "tests/engine/sampling_parameters.h"
#include "tests/engine/tiny_draft.h"
#include "tests/engine/toy_proposer.h"
#include "tests/engine/wrapped_proposer.h"

namespace slip {
namespace {

using testing::Answer;
using testing::ToyLanguage;
using testing::ToyProposer;
using testing::ToyWorker;

constexpr std::int32_t kEndToken = 0;

struct Setting {
  std::int32_t k = 3;
  std::int32_t concurrency = 1;
  ToyProposer::Options draft;
  std::int32_t prefill_chunk = 16;
  TreeLimits tree = {};  // of each request
};

std::vector<std::vector<std::int32_t>> some_prompts(std::size_t n, std::int32_t vocab_size) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::int32_t>& prompt = prompts.emplace_back();
    for (std::size_t j = 0; j < 1 + i * 7; ++j) {
      prompt.push_back(static_cast<std::int32_t>(
          philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), 0, 0}, {1, 2})[0] %
          static_cast<std::uint32_t>(vocab_size)));
    }
  }
  return prompts;
}

std::vector<Answer> answers_of(std::unique_ptr<Worker> worker, const ToyLanguage& language,
                               const SamplingParams& sampling, const Setting& setting) {
  EngineOptions options;
  options.k = setting.k;
  options.max_running = setting.concurrency;
  options.prefill_chunk = setting.prefill_chunk;
  Engine engine(options, std::move(worker), nullptr, std::make_unique<ToyProposer>(language, setting.draft), nullptr,
                {});
  const auto prompts = some_prompts(10, language.vocab_size);
  std::vector<Answer> answers(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Request request = testing::full_request(i + 1, prompts[i], answers[i]);
    request.sampling = sampling;
    request.max_tokens = 40;
    request.end_ids = {kEndToken};
    request.draft = testing::empty_live_draft();
    request.tree = setting.tree;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  return answers;
}

std::vector<Answer> answers_of(const ToyLanguage& language, const SamplingParams& sampling, const Setting& setting) {
  return answers_of(std::make_unique<ToyWorker>(language), language, sampling, setting);
}

// Plain decoding without an engine: tokens and checksum.
Answer plain_answer(const ToyLanguage& language, std::vector<std::int32_t> tokens, const SamplingParams& sampling) {
  Answer answer;
  const auto n_prompt = static_cast<std::int32_t>(tokens.size());
  const std::vector<std::int32_t> end_ids{kEndToken};
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto logits = language.logits(tokens);
    Distribution p;
    transform_logits(logits, sampling, {tokens, n_prompt, end_ids}, p);
    const std::int32_t token = sample_gumbel(p, {sampling.seed.value_or(0), 0, i});
    answer.summary.figures.checksum = raw_logits_checksum(logits, answer.summary.figures.checksum);
    answer.tokens.push_back(token);
    tokens.push_back(token);
    if (token == kEndToken) break;
  }
  return answer;
}

std::vector<SamplingParams> modes() {
  return {{.temperature = 0},
          {.temperature = 0.7F, .top_p = 0.9F, .seed = 42},
          {.temperature = 1, .top_k = 6, .seed = 7},
          {.temperature = 1, .min_p = 0.1F, .repetition_penalty = 1.3F, .seed = 8},
          {.temperature = 0, .presence_penalty = 0.5F, .frequency_penalty = 0.3F, .min_tokens = 9},
          {.temperature = 0.9F,
           .frequency_penalty = -0.4F,
           .logit_bias = {{3, 2}, {5, -100}},
           .min_tokens = 20,
           .seed = 9}};
}

bool all_same(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Answer& x, const Answer& y) { return x.same_as(y); });
}

TEST(EngineLossless, PlainDecodingIsTheLanguage) {
  const ToyLanguage language;
  const auto prompts = some_prompts(10, language.vocab_size);
  for (const SamplingParams& sampling : modes()) {
    const auto answers = answers_of(language, sampling, {.k = 0});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Answer plain = plain_answer(language, prompts[i], sampling);
      EXPECT_EQ(answers[i].tokens, plain.tokens);
      EXPECT_EQ(answers[i].summary.figures.checksum, plain.summary.figures.checksum);
      EXPECT_EQ(answers[i].n_finished, 1);
    }
  }
}

TEST(EngineLossless, EveryDraftLengthDraftAndCompanyGivesTheSameAnswers) {
  const ToyLanguage language;
  for (const SamplingParams& sampling : modes()) {
    const auto plain = answers_of(language, sampling, {.k = 0});
    for (std::int32_t k = 0; k <= 8; ++k) {
      for (const std::int32_t concurrency : {1, 8}) {
        for (const double likeness : {1.0, 0.7, 0.0}) {
          const Setting setting{.k = k, .concurrency = concurrency, .draft = {.likeness = likeness}};
          EXPECT_TRUE(all_same(plain, answers_of(language, sampling, setting)))
              << "k " << k << " concurrency " << concurrency << " likeness " << likeness;
        }
      }
    }
  }
}

TEST(EngineLossless, EveryParameterAloneAndInPairsGivesTheSameAnswers) {
  const ToyLanguage language{.lowest = -2};
  for (testing::NamedSampling& one : testing::alone_and_in_pairs()) {
    for (const bool greedy : {false, true}) {
      if (greedy) one.sampling.temperature = 0;
      one.sampling.seed = 11;
      const auto plain = answers_of(language, one.sampling, {.k = 0});
      for (const Setting& setting :
           {Setting{.k = 1, .draft = {.likeness = 0.7}}, Setting{.k = 4, .concurrency = 8, .draft = {.likeness = 0.9}},
            Setting{.k = 8, .concurrency = 3, .draft = {.likeness = 0.8, .width = 2}}}) {
        EXPECT_TRUE(all_same(plain, answers_of(language, one.sampling, setting)))
            << one.name << (greedy ? ", greedy, k " : ", seeded, k ") << setting.k;
      }
    }
  }
}

// Accepted nodes of a tree are not where committed tokens belong: the cache must move them.
TEST(EngineLossless, TreesGiveTheSameAnswers) {
  const ToyLanguage language;
  for (const SamplingParams& sampling : modes()) {
    const auto plain = answers_of(language, sampling, {.k = 0});
    for (const std::int32_t width : {2, 3}) {
      for (const double likeness : {1.0, 0.7}) {
        const Setting setting{.k = 8, .concurrency = 8, .draft = {.likeness = likeness, .width = width}};
        const auto answers = answers_of(language, sampling, setting);
        EXPECT_TRUE(all_same(plain, answers)) << "width " << width << " likeness " << likeness;
        std::int32_t accepted = 0;
        for (const Answer& answer : answers) {
          accepted += answer.summary.figures.accepted + answer.summary.figures.accepted_siblings;
        }
        EXPECT_GT(accepted, 20);
      }
    }
  }
}

TEST(EngineLossless, TreesThatTheRequestLimitsGiveTheSameAnswers) {
  const ToyLanguage language;
  for (const SamplingParams& sampling : modes()) {
    const auto plain = answers_of(language, sampling, {.k = 0});
    for (const TreeLimits& tree :
         {TreeLimits{.nodes = 1}, TreeLimits{.nodes = 5}, TreeLimits{.depth = 3}, TreeLimits{.nodes = 4, .width = 2}}) {
      const Setting setting{.k = 8, .concurrency = 8, .draft = {.likeness = 0.8, .width = 2}, .tree = tree};
      const auto answers = answers_of(language, sampling, setting);
      EXPECT_TRUE(all_same(plain, answers)) << tree.nodes << " nodes, depth " << tree.depth;
      std::int32_t proposed = 0;
      for (const Answer& answer : answers) {
        const RequestFigures& figures = answer.summary.figures;
        EXPECT_LE(figures.proposed, figures.steps * tree.longest_chain()) << "the toy's siblings are in its chain";
        proposed += figures.proposed;
      }
      EXPECT_GT(proposed, 20);
    }
  }
}

TEST(EngineLossless, HowAPromptIsChunkedDoesNotMatter) {
  const ToyLanguage language;
  const SamplingParams sampling{.temperature = 1, .seed = 5};
  const auto whole = answers_of(language, sampling, {.k = 0, .prefill_chunk = 400});
  for (const std::int32_t chunk : {1, 3, 64}) {
    EXPECT_TRUE(all_same(whole, answers_of(language, sampling, {.k = 4, .concurrency = 8, .prefill_chunk = chunk})));
  }
}

TEST(EngineLossless, FiguresAddUp) {
  const ToyLanguage language;
  for (const SamplingParams& sampling : modes()) {
    for (const double likeness : {1.0, 0.7, 0.0}) {
      const Setting setting{.k = 5, .concurrency = 4, .draft = {.likeness = likeness}};
      for (const Answer& answer : answers_of(language, sampling, setting)) {
        const RequestFigures& figures = answer.summary.figures;
        const auto sum = [](const std::vector<std::int32_t>& v) { return std::accumulate(v.begin(), v.end(), 0); };
        ASSERT_EQ(figures.output_tokens, static_cast<std::int32_t>(answer.tokens.size()));
        // Each step adds the accepted tokens and the target's own; the last may end inside the accepted ones.
        const std::int32_t missing = figures.accepted + figures.steps - figures.output_tokens;
        EXPECT_TRUE(missing == 0 || (missing == 1 && answer.tokens.back() == kEndToken)) << missing;
        EXPECT_EQ(sum(figures.accepted_at), figures.accepted);
        EXPECT_EQ(sum(figures.reached_at), figures.accepted + figures.first_rejections);
        EXPECT_GE(figures.proposed, figures.accepted + figures.first_rejections);
        const ProposerFigures& draft = figures.by_proposer[0];
        EXPECT_EQ(draft.proposed, figures.proposed);
        EXPECT_EQ(draft.accepted, figures.accepted);
        EXPECT_EQ(draft.first_rejections, figures.first_rejections);
        EXPECT_TRUE(likeness < 1.0 || sampling.temperature > 0 || figures.first_rejections == 0);
      }
    }
  }
}

// Draft lengths were looked up by the live draft, which is null without a draft: the engine's thread crashed.
TEST(EngineDraftless, AdaptiveLengthsGiveTheAnswersOfPlainDecoding) {
  const ToyLanguage language;
  const auto prompts = some_prompts(8, language.vocab_size);
  for (const SamplingParams& sampling : modes()) {
    ToyProposer* proposer = nullptr;
    const auto answers_without_draft = [&](Engine& engine) {
      std::vector<Answer> answers(prompts.size());
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        Request request = testing::full_request(i + 1, prompts[i], answers[i]);
        request.sampling = sampling;
        request.max_tokens = 40;
        engine.submit(std::move(request));
      }
      EXPECT_TRUE(testing::drain(engine));
      return answers;
    };
    const auto engine_of = [&](std::int32_t k) {
      EngineOptions options;
      options.k = k;
      options.adaptive_k = true;
      options.max_running = 3;
      auto owned = std::make_unique<ToyProposer>(language, ToyProposer::Options{.likeness = 0.9, .needs_draft = false});
      owned->version = 0;
      proposer = owned.get();
      return std::make_unique<Engine>(options, std::make_unique<ToyWorker>(language), nullptr, std::move(owned),
                                      nullptr, std::vector<StepListener*>{});
    };
    const auto plain_engine = engine_of(0);
    const auto plain = answers_without_draft(*plain_engine);
    EXPECT_EQ(proposer->n_calls, 0);
    const auto engine = engine_of(2);
    const auto answers = answers_without_draft(*engine);
    EXPECT_TRUE(all_same(plain, answers));
    std::int32_t accepted = 0;
    for (const Answer& answer : answers) {
      EXPECT_EQ(answer.summary.figures.last_version, 0U);
      accepted += answer.summary.figures.accepted;
    }
    EXPECT_GT(accepted, 0) << "the first steps draft k tokens, whatever they cost";
    EXPECT_GT(proposer->n_lengths_chosen, 0) << "no length was chosen by acceptance";
    EXPECT_TRUE(proposer->begun.empty());
  }
}

TEST(EngineDraftless, AProposerThatNeedsADraftIsNotAskedWithoutOne) {
  const ToyLanguage language;
  auto owned_proposer = std::make_unique<ToyProposer>(language, ToyProposer::Options{});
  const ToyProposer& proposer = *owned_proposer;
  Engine engine({.k = 4}, std::make_unique<ToyWorker>(language), nullptr, std::move(owned_proposer), nullptr, {});
  Answer answer;
  Request request = testing::full_request(1, {1, 2, 3}, answer);
  request.sampling.temperature = 0;
  engine.submit(std::move(request));
  ASSERT_TRUE(testing::drain(engine));
  EXPECT_EQ(proposer.n_calls, 0);
  EXPECT_EQ(answer.summary.figures.proposed, 0);
}

// ---- negative controls ----

TEST(EngineLosslessNegative, ABatchVariantTargetIsNoticed) {
  const ToyLanguage language;
  const auto variant = [&] {
    auto worker = std::make_unique<ToyWorker>(language);
    worker->spoil = [](const StepInput& input, std::span<float> logits) {
      logits[0] += 1e-5F * static_cast<float>(input.tokens.size());
    };
    return worker;
  };
  const SamplingParams sampling{.temperature = 0};
  const auto plain = answers_of(variant(), language, sampling, {.k = 0});
  EXPECT_FALSE(all_same(plain, answers_of(variant(), language, sampling, {.k = 3})));
  EXPECT_FALSE(all_same(plain, answers_of(variant(), language, sampling, {.k = 0, .concurrency = 8})));
}

// Runs the step with the positions of all but each sequence's first row off by one.
class OffByOneWorker final : public Worker {
 public:
  explicit OffByOneWorker(const ToyLanguage& language) : inner_(language) {}
  void run(const StepInput& input, StepOutput& output) override {
    std::vector<std::int32_t> positions(input.positions.begin(), input.positions.end());
    for (std::size_t s = 0; s < input.kv.size(); ++s) {
      const bool is_prompt = input.kv[s].n_cached == 0;
      for (std::int32_t row = input.row_begin[s] + 1; row < input.row_begin[s + 1] && !is_prompt; ++row) {
        ++positions[static_cast<std::size_t>(row)];
      }
    }
    StepInput shifted = input;
    shifted.positions = positions;
    inner_.run(shifted, output);
  }
  const ModelConfig& config() const override { return inner_.config(); }
  PagePool& cache() override { return inner_.cache(); }
  std::int32_t max_rows() const override { return inner_.max_rows(); }
  std::int32_t max_logit_rows() const override { return inner_.max_logit_rows(); }

 private:
  ToyWorker inner_;
};

TEST(EngineLosslessNegative, APositionOffByOneIsNoticed) {
  const ToyLanguage language;
  const SamplingParams sampling{.temperature = 0};
  const Setting setting{.k = 3, .prefill_chunk = 400};
  const auto plain = answers_of(language, sampling, {.k = 0, .prefill_chunk = 400});
  EXPECT_TRUE(all_same(plain, answers_of(language, sampling, setting)));
  EXPECT_FALSE(all_same(plain, answers_of(std::make_unique<OffByOneWorker>(language), language, sampling, setting)));
}

// ---- rejection sampling: no seed, so the answer's distribution is what must not change ----

TEST(EngineRejection, AnswersFollowTheTargetsDistributionWhateverTheDraft) {
  const SamplingParams sampling{.temperature = 0.9F};
  const auto distribution = testing::answer_distribution(sampling);
  for (const double likeness : {1.0, 0.6, 0.0}) {
    for (const std::int32_t width : {1, 2}) {
      const auto counts =
          testing::count_answers(sampling, testing::distribution_proposer({.likeness = likeness, .width = width}));
      EXPECT_GT(testing::chi_square_p_value(counts, distribution), testing::kSignificance)
          << "likeness " << likeness << " width " << width;
    }
  }
}

// Draws from one distribution and reports another as q: the answers' distribution must change.
class LyingProposer final : public testing::WrappedProposer {
 public:
  using WrappedProposer::WrappedProposer;
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    const std::int32_t n_passes = WrappedProposer::propose(tasks);
    for (const DraftTask& task : tasks) {
      for (Distribution& q : task.proposal->q)
        std::fill(q.probabilities.begin(), q.probabilities.end(), 1.0 / testing::kDistributionVocab);
    }
    return n_passes;
  }
};

// A draft model with siblings and a rule that ends its chains, or with a planted fault.
enum class Fault {
  kNone,
  kSiblingsAgainstAllOfQ,
  kDropsUnlikelyTokens,
  kDropsUnlikelyChildren,
  kDropsSiblingsForALaterToken,  // no fault: these were not drawn with it
};

class FaultyProposer final : public testing::WrappedProposer {
 public:
  FaultyProposer(kernels::ThreadPool& pool, Fault fault, const ChoiceRates& rates = {},
                 std::int64_t* n_behind_siblings = nullptr)
      : WrappedProposer(std::make_unique<DraftModelProposer>(DraftModelOptions{.n_pages = 64, .max_running = 16},
                                                             testing::toy_config(testing::kDistributionVocab), pool)),
        fault_(fault),
        rates_(rates),
        n_behind_siblings_(n_behind_siblings) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    std::vector<DraftTask> stopped(tasks.begin(), tasks.end());
    const double row_price = rates_.is_by_rank() ? 0 : 0.3;
    for (DraftTask& task : stopped) task.stop = {&rates_, /*next_rate=*/1, row_price, /*pass_price=*/0};
    const std::int32_t n_passes = WrappedProposer::propose(stopped);
    for (const DraftTask& task : tasks) {
      spoil(*task.proposal);
      proposals_[task.sequence->id.value] = task.proposal;
    }
    return n_passes;
  }
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override {
    const bool behind_sibling = result.accepted.size() > 1 && result.accepted[0] > 0 &&
                                result.accepted[0] >= proposals_.at(sequence.id.value)->chain_length();
    if (behind_sibling && n_behind_siblings_ != nullptr) ++*n_behind_siblings_;
    WrappedProposer::on_verified(sequence, result);
  }

 private:
  void spoil(Proposal& proposal) const {
    if (fault_ == Fault::kSiblingsAgainstAllOfQ) {
      for (std::size_t node = 0; node < proposal.size(); ++node) {
        proposal.q[node] = proposal.q[proposal.first_below(proposal.parents[node])];
      }
    }
    if (fault_ == Fault::kDropsUnlikelyTokens && proposal.size() > 0 && proposal.log_q(0) < std::log(0.3)) {
      proposal.clear();
      proposal.draw_method = DrawMethod::kSampled;
    }
    if (fault_ == Fault::kDropsUnlikelyChildren) {
      const std::int32_t n_chain = proposal.chain_length();
      std::vector<std::int32_t> kept;
      for (std::int32_t node = 0; node < std::ssize(proposal.tokens); ++node) {
        const auto first = proposal.first_below(proposal.parents[static_cast<std::size_t>(node)]);
        const bool dropped = std::cmp_greater_equal(first, n_chain) && proposal.log_q(first) < std::log(0.3);
        if (!dropped) kept.push_back(node);
      }
      keep_nodes(proposal, kept);
    }
    if (fault_ == Fault::kDropsSiblingsForALaterToken && proposal.chain_length() > 1 && proposal.tokens[1] < 2) {
      keep_nodes(proposal, std::vector<std::int32_t>{0, 1});
    }
  }
  Fault fault_;
  ChoiceRates rates_;
  std::int64_t* n_behind_siblings_;
  std::map<std::uint64_t, const Proposal*> proposals_;  // of the step
};

double p_value_of(const SamplingParams& sampling, Fault fault, std::size_t n_answers = 20000,
                  const TreeLimits& tree = {}) {
  kernels::ThreadPool pool(1);
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  const auto counts = testing::count_answers(
      sampling, std::make_unique<FaultyProposer>(pool, fault),
      {.n = n_answers, .live_draft = testing::make_live_draft(draft), .tree_width = 3, .tree = tree});
  return testing::chi_square_p_value(counts, testing::answer_distribution(sampling));
}

TEST(EngineRejection, SiblingsAndEarlyStopsKeepTheDistribution) {
  for (const SamplingParams& sampling : {SamplingParams{.temperature = 0.9F}, SamplingParams{.top_k = 2},
                                         SamplingParams{.temperature = 1.4F, .presence_penalty = 0.5F}}) {
    EXPECT_GT(p_value_of(sampling, Fault::kNone), testing::kSignificance);
  }
}

// A cut that looked at a sampled token's own probability would bias the answers.
TEST(EngineRejection, TreesThatTheRequestLimitsKeepTheDistribution) {
  for (const TreeLimits& tree : {TreeLimits{.nodes = 2, .depth = 1}, TreeLimits{.nodes = 3},
                                 TreeLimits{.nodes = 3, .width = 2}, TreeLimits{.depth = 1, .width = 3}}) {
    EXPECT_GT(p_value_of({.temperature = 0.9F}, Fault::kNone, 20000, tree), testing::kSignificance)
        << tree.nodes << " nodes, depth " << tree.depth << ", width " << tree.width;
  }
}

// Trees of a shape that no token changes: what follows siblings is proposed too, at two levels. The last token of the
// prompt is read in a step of its own, which so proposes a tree.
struct SampledTrees {
  double p_value = 0;
  std::int64_t n_behind_siblings = 0;  // accepted
};
SampledTrees sampled_trees(const SamplingParams& sampling, Fault fault, std::size_t n_answers = 20000) {
  kernels::ThreadPool pool(1);
  SampledTrees found;
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  auto proposer = std::make_unique<FaultyProposer>(pool, fault, ChoiceRates(RankRates{0.5, 0.5, 0.4, 0.3}),
                                                   &found.n_behind_siblings);
  const auto counts = testing::count_answers(
      sampling, std::move(proposer),
      {.n = n_answers, .live_draft = testing::make_live_draft(draft), .tree_width = 3, .prefill_chunk = 1});
  found.p_value = testing::chi_square_p_value(counts, testing::answer_distribution(sampling));
  return found;
}

TEST(EngineRejection, WhatFollowsSampledSiblingsKeepsTheDistribution) {
  for (const SamplingParams& sampling : {SamplingParams{.temperature = 0.9F}, SamplingParams{.top_k = 2},
                                         SamplingParams{.temperature = 1.4F, .presence_penalty = 0.5F}}) {
    const SampledTrees trees = sampled_trees(sampling, Fault::kNone);
    EXPECT_GT(trees.p_value, testing::kSignificance);
    EXPECT_GT(trees.n_behind_siblings, 1000);
  }
}

// Regression: the next step drew by the random number of the token for which the siblings were dropped.
TEST(EngineRejection, SiblingsMayBeDroppedForALaterToken) {
  EXPECT_GT(sampled_trees({.temperature = 2}, Fault::kDropsSiblingsForALaterToken, 90000).p_value,
            testing::kSignificance);
}

// Which shapes they have hangs on the clock here.
TEST(EngineRejection, StaticTreesKeepTheDistribution) {
  kernels::ThreadPool pool(1);
  const SamplingParams sampling{.temperature = 0.9F};
  const DraftModelOptions options{.n_pages = 64, .max_running = 16};
  const auto draft = testing::tiny_draft(testing::tiny_draft_config(testing::kDistributionVocab), 5);
  const auto counts = testing::count_answers(
      sampling, std::make_unique<DraftModelProposer>(options, testing::toy_config(testing::kDistributionVocab), pool),
      {.live_draft = testing::make_live_draft(draft),
       .tree_width = 3,
       .prefill_chunk = 1,
       .policy = PolicyKind::kStaticTree});
  EXPECT_GT(testing::chi_square_p_value(counts, testing::answer_distribution(sampling)), testing::kSignificance);
}

TEST(EngineRejectionNegative, ChildrenVerifiedAgainstAllOfQAreNoticed) {
  EXPECT_LT(sampled_trees({.temperature = 0.9F}, Fault::kSiblingsAgainstAllOfQ, 60000).p_value, testing::kSignificance);
}

TEST(EngineRejectionNegative, AChildDroppedForItsOwnProbabilityIsNoticed) {
  EXPECT_LT(sampled_trees({.temperature = 0.9F}, Fault::kDropsUnlikelyChildren, 90000).p_value, testing::kSignificance);
}

TEST(EngineRejectionNegative, SiblingsVerifiedAgainstAllOfQAreNoticed) {
  EXPECT_LT(p_value_of({.temperature = 0.9F}, Fault::kSiblingsAgainstAllOfQ, 60000), testing::kSignificance);
}

TEST(EngineRejectionNegative, ATokenDroppedForItsOwnProbabilityIsNoticed) {
  EXPECT_LT(p_value_of({.temperature = 0.9F}, Fault::kDropsUnlikelyTokens, 60000), testing::kSignificance);
}

TEST(EngineRejectionNegative, AProposerThatMisstatesItsDrawMethodIsNoticed) {
  const SamplingParams sampling{.temperature = 0.9F};
  const auto counts =
      testing::count_answers(sampling, std::make_unique<LyingProposer>(testing::distribution_proposer()));
  EXPECT_LT(testing::chi_square_p_value(counts, testing::answer_distribution(sampling)), testing::kSignificance);
}

}  // namespace
}  // namespace slip
