// SPDX-License-Identifier: Apache-2.0
// Speculation changes no bit of an answer: on the toy language, whose every logit depends on every token, slot and
// position before it, the engine's answers equal a plain loop's for every draft length, draft and company.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/speculative/raw_logits_checksum.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/sampling_parameters.h"
#include "tests/engine/toy_proposer.h"

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

}  // namespace
}  // namespace slip
