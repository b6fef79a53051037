// SPDX-License-Identifier: Apache-2.0
// Answers under a grammar: always valid, the same with speculation as without, and distributed as the masked target.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/error.h"
#include "engine/speculative/lookup_proposer.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/goodness_of_fit.h"
#include "tests/engine/grammar/grammar_walks.h"
#include "tests/engine/grammar/schema_validator.h"
#include "tests/engine/sampling_parameters.h"
#include "tests/engine/toy_proposer.h"
#include "tests/engine/wrapped_proposer.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using testing::Answer;
using testing::ToyLanguage;
using testing::ToyProposer;
using testing::ToyWorker;

constexpr std::int32_t kEndToken = 260;
constexpr std::int32_t kVocab = 263;

const std::string kSchema = R"({"properties": {"a": {"enum": ["aa", "ab\"", "aaaab"]},
    "n": {"type": "integer", "minimum": -20, "maximum": 300}, "l": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    "s": {"type": "string", "pattern": "^a+$", "maxLength": 9}}, "required": ["a", "l"], "additionalProperties": false})";

const std::shared_ptr<const Tokenizer>& tokenizer() {
  static const auto loaded = testing::tiny_tokenizer();
  return loaded;
}

ToyLanguage language() {
  return {.vocab_size = kVocab, .seed = 5};
}

struct Setting {
  std::int32_t k = 3;
  std::int32_t concurrency = 4;
  ToyProposer::Options draft;
  std::int32_t max_tokens = 150;
};

std::vector<Answer> answers_of(const SamplingParams& sampling, const Setting& setting,
                               const std::vector<std::int32_t>& end_ids = {kEndToken}) {
  EngineOptions options;
  options.k = setting.k;
  options.max_running = setting.concurrency;
  testing::RecordingObservations observations;
  Engine engine(options, std::make_unique<ToyWorker>(language()), tokenizer(),
                std::make_unique<ToyProposer>(language(), setting.draft), &observations, {});
  std::vector<Answer> answers(8);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = testing::full_request(i + 1, {static_cast<std::int32_t>(i) + 7, 3}, answers[i]);
    request.sampling = sampling;
    request.max_tokens = setting.max_tokens;
    request.end_ids = end_ids;
    request.draft = testing::empty_live_draft();
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  EXPECT_EQ(observations.begun.size(), answers.size()) << "observations are raw distributions, which drafts learn from";
  return answers;
}

std::vector<SamplingParams> modes() {
  const auto grammar = testing::grammar_of(kSchema);
  return {{.temperature = 0, .grammar = grammar},
          {.temperature = 1, .seed = 42, .grammar = grammar},
          {.temperature = 0.8F, .top_p = 0.9F, .frequency_penalty = 0.5F, .seed = 43, .grammar = grammar},
          {.temperature = 1, .top_k = 4, .logit_bias = {{'\n', 3}, {kEndToken, 5}}, .seed = 44, .grammar = grammar}};
}

// Logits where every token that leaves the grammar is −inf; tests each token separately.
std::vector<float> masked_logits(const Grammar& grammar, const GrammarState& state, std::vector<float> logits) {
  for (std::int32_t id = 0; id < kVocab; ++id) {
    GrammarState after = state;
    const std::string_view text = tokenizer()->is_special(id) ? "" : tokenizer()->token_bytes(id);
    const bool allowed = id == kEndToken ? state.is_complete() : !text.empty() && after.advance(grammar, text);
    if (!allowed) logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return logits;
}

// Plain decoding without an engine or masks. Penalties and bias come before the mask and are not done here.
std::vector<std::int32_t> plain_tokens(std::vector<std::int32_t> tokens, SamplingParams sampling) {
  const auto grammar = std::exchange(sampling.grammar, nullptr);
  const auto n_prompt = static_cast<std::int32_t>(tokens.size());
  GrammarState state = GrammarState::start(*grammar);
  for (std::uint32_t i = 0; i < 150 && !state.is_over(); ++i) {
    const auto logits = masked_logits(*grammar, state, language().logits(tokens));
    Distribution p;
    transform_logits(logits, sampling, {tokens, n_prompt, {}}, p);
    tokens.push_back(sample_gumbel(p, {sampling.seed.value_or(0), 0, i}));
    if (tokens.back() == kEndToken) break;
    state.advance(*grammar, tokenizer()->token_bytes(tokens.back()));
  }
  return {tokens.begin() + n_prompt, tokens.end()};
}

TEST(EngineGrammar, PlainDecodingIsTheMaskedLanguage) {
  for (const SamplingParams& sampling : {modes()[0], modes()[1]}) {
    const auto answers = answers_of(sampling, {.k = 0});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, plain_tokens({static_cast<std::int32_t>(i) + 7, 3}, sampling)) << i;
    }
  }
}

TEST(EngineGrammar, SpeculationChangesNothing) {
  for (const SamplingParams& sampling : modes()) {
    const auto plain = answers_of(sampling, {.k = 0});
    for (const Setting& setting :
         {Setting{.k = 3}, Setting{.k = 7, .draft = {.likeness = 1}}, Setting{.k = 4, .draft = {.likeness = 0}},
          Setting{.k = 6, .draft = {.likeness = 0.8, .width = 2}}, Setting{.k = 2, .concurrency = 1}}) {
      const auto answers = answers_of(sampling, setting);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << setting.k << " answer " << i << "\n"
                                                  << plain[i].text << "\n"
                                                  << answers[i].text;
      }
    }
  }
}

TEST(EngineGrammar, AnswersAreDocumentsOrCutShort) {
  const testing::SchemaValidator validator(nlohmann::json::parse(kSchema));
  const auto grammar = testing::grammar_of(kSchema);
  int n_complete = 0, n_cut = 0;
  for (const std::int32_t max_tokens : {10, 150}) {
    for (SamplingParams sampling : modes()) {
      if (sampling.temperature > 0) sampling.seed.reset();  // rejection
      for (const Answer& answer : answers_of(sampling, {.max_tokens = max_tokens})) {
        if (answer.summary.reason == StopReason::kEndToken) {
          ASSERT_TRUE(nlohmann::json::accept(answer.text)) << answer.text;
          EXPECT_TRUE(validator.is_valid(nlohmann::json::parse(answer.text))) << answer.text;
          ++n_complete;
          continue;
        }
        EXPECT_EQ(answer.summary.reason, StopReason::kLength);
        GrammarState state = GrammarState::start(*grammar);
        EXPECT_TRUE(state.advance(*grammar, answer.text)) << answer.text;
        ++n_cut;
      }
    }
  }
  EXPECT_GT(n_complete, 10);
  EXPECT_GT(n_cut, 10);
}

TEST(EngineGrammar, ADocumentThatIsOverEndsTheAnswer) {
  SamplingParams sampling{.temperature = 0, .grammar = testing::grammar_of(R"({"const": {"a": 1}})")};
  for (const bool has_end : {true, false}) {
    for (const std::int32_t k : {0, 5}) {
      for (const Answer& answer :
           answers_of(sampling, {.k = k}, has_end ? std::vector{kEndToken} : std::vector<int>{})) {
        EXPECT_EQ(answer.summary.reason, StopReason::kEndToken);
        EXPECT_TRUE(answer.text.ends_with(R"({"a":1})")) << answer.text;
        EXPECT_NE(answer.tokens.back(), kEndToken);
      }
    }
  }
  // A number can be continued, so only a bias makes it end early.
  sampling = {
      .temperature = 0, .logit_bias = {{kEndToken, 50}}, .grammar = testing::grammar_of(R"({"type": "integer"})")};
  for (const Answer& answer : answers_of(sampling, {})) EXPECT_EQ(answer.tokens.back(), kEndToken);
}

TEST(EngineGrammar, WhatCannotGoTogetherIsRefused) {
  Answer answer;
  Request request = testing::full_request(1, {1}, answer);
  request.sampling.grammar = json_object_grammar();
  const auto refusal = [&](const std::shared_ptr<const Tokenizer>& words) -> std::string {
    Engine engine({}, std::make_unique<ToyWorker>(language()), words,
                  std::make_unique<ToyProposer>(language(), ToyProposer::Options{}), nullptr, {});
    try {
      engine.submit(request);
    } catch (const Error& error) {
      return error.param();
    }
    return "none";
  };
  EXPECT_EQ(refusal(nullptr), "response_format");
  EXPECT_EQ(refusal(tokenizer()), "none");
  request.sampling.min_tokens = 2;
  EXPECT_EQ(refusal(tokenizer()), "min_tokens");
}

// A vocabulary in which no token has the text '{': there are tokens for what may precede it, then none.
std::shared_ptr<const Tokenizer> tokenizer_without_brace() {
  nlohmann::json file = testing::tiny_tokenizer_json();
  nlohmann::json brace = file["added_tokens"].front();
  brace["id"] = '{';
  brace["content"] = "{";
  file["added_tokens"].push_back(brace);
  return testing::load_tokenizer(file);
}

TEST(EngineGrammar, WithoutATokenThatFitsAnAnswerEndsAndItsNeighboursGoOn) {
  const auto words = tokenizer_without_brace();
  const auto list = testing::grammar_of(R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 3})");
  for (const std::int32_t k : {0, 4}) {
    EngineOptions options;
    options.k = k;
    Engine engine(options, std::make_unique<ToyWorker>(language()), words,
                  std::make_unique<ToyProposer>(language(), ToyProposer::Options{}), nullptr, {});
    std::vector<Answer> answers(9);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Request request = testing::full_request(i + 1, {static_cast<std::int32_t>(i) + 7, 3}, answers[i]);
      request.sampling = {.temperature = 1, .seed = i};
      if (i % 3 == 0) request.sampling.grammar = json_object_grammar();
      if (i % 3 == 1) request.sampling.grammar = list;
      request.max_tokens = 150;
      request.end_ids = {kEndToken};
      request.draft = testing::empty_live_draft();
      engine.submit(std::move(request));
    }
    EXPECT_TRUE(testing::drain(engine));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const RequestSummary& summary = answers[i].summary;
      if (i % 3 != 0) {
        EXPECT_NE(summary.reason, StopReason::kFailed) << i;
        continue;
      }
      EXPECT_EQ(answers[i].text.find_first_not_of(" \t\r\n"), std::string::npos) << answers[i].text;
      ASSERT_EQ(summary.reason, StopReason::kFailed) << i;
      EXPECT_EQ(summary.error->code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(summary.error->param(), "response_format");
      EXPECT_NE(summary.error->message().find("no token"), std::string::npos) << summary.error->message();
    }
    EXPECT_TRUE(nlohmann::json::accept(answers[1].text)) << answers[1].text;
  }
}

// ---- rejection sampling: the distribution of the answers ----

// Biases blanks to be impossible in practice, so that there are few answers.
SamplingParams distribution_sampling(SamplingParams sampling = {.top_k = 3}) {
  sampling.grammar = testing::grammar_of(R"({"enum": ["a", "aa", "ab", "aaab", 1, 12]})");
  for (const std::int32_t blank : {' ', '\t', '\n', '\r'}) sampling.logit_bias.push_back({blank, -100});
  return sampling;
}

using AnswerProbabilities = std::map<std::vector<std::int32_t>, double>;

void add_answers(const SamplingParams& unmasked, const Grammar& grammar, const GrammarState& state,
                 std::vector<std::int32_t>& tokens, double probability, AnswerProbabilities& distribution) {
  const std::vector<std::int32_t> answer(tokens.begin() + 2, tokens.end());
  if (state.is_over() || (!answer.empty() && answer.back() == kEndToken)) {
    distribution[answer] += probability;
    return;
  }
  Distribution p;
  transform_logits(masked_logits(grammar, state, language().logits(tokens)), unmasked, {tokens, 2, {}}, p);
  for (std::size_t i = 0; i < p.ids.size(); ++i) {
    if (p.probabilities[i] < 1e-12) continue;
    GrammarState after = state;
    if (p.ids[i] != kEndToken) after.advance(grammar, tokenizer()->token_bytes(p.ids[i]));
    tokens.push_back(p.ids[i]);
    add_answers(unmasked, grammar, after, tokens, probability * p.probabilities[i], distribution);
    tokens.pop_back();
  }
}

// A mask only sets logits to −inf, so it may be applied before the parameters' changes.
AnswerProbabilities answer_distribution(SamplingParams sampling) {
  const auto grammar = std::exchange(sampling.grammar, nullptr);
  AnswerProbabilities distribution;
  std::vector<std::int32_t> tokens{7, 3};
  add_answers(sampling, *grammar, GrammarState::start(*grammar), tokens, 1, distribution);
  return distribution;
}

using Counts = std::map<std::vector<std::int32_t>, std::int64_t>;

Counts count_answers(const SamplingParams& sampling, std::unique_ptr<Proposer> proposer) {
  EngineOptions options;
  options.k = 2;
  options.max_waiting = 5000;
  options.seed = 20260101;
  Engine engine(options, std::make_unique<ToyWorker>(language()), tokenizer(), std::move(proposer), nullptr, {});
  std::vector<Answer> answers(5000);
  const auto live_draft = testing::empty_live_draft();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = testing::full_request(i + 1, {7, 3}, answers[i]);
    request.sampling = sampling;
    request.end_ids = {kEndToken};
    request.top_logprobs = -1;
    request.checksum = false;
    request.draft = live_draft;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  Counts counts;
  for (const Answer& answer : answers) ++counts[answer.tokens];
  return counts;
}

double p_value_of_counts(const Counts& counts, const AnswerProbabilities& distribution) {
  EXPECT_GT(distribution.size(), 2U);
  std::vector<std::int64_t> observed;
  std::vector<double> expected;
  for (const auto& [answer, probability] : distribution) {
    const auto found = counts.find(answer);
    observed.push_back(found == counts.end() ? 0 : found->second);
    expected.push_back(probability);
  }
  for (const auto& [answer, count] : counts) {
    if (!distribution.contains(answer)) return 0;
  }
  return testing::chi_square_p_value(observed, expected);
}

double p_value_of_answers(std::unique_ptr<Proposer> proposer) {
  return p_value_of_counts(count_answers(distribution_sampling(), std::move(proposer)),
                           answer_distribution(distribution_sampling()));
}

TEST(EngineGrammar, UnseededAnswersFollowTheMaskedDistribution) {
  for (const ToyProposer::Options& draft :
       {ToyProposer::Options{.likeness = 0.6}, ToyProposer::Options{.likeness = 0, .width = 2}}) {
    EXPECT_GT(p_value_of_answers(std::make_unique<ToyProposer>(language(), draft)), testing::kSignificance);
  }
  // It also proposes tokens that the grammar forbids.
  EXPECT_GT(p_value_of_answers(std::make_unique<LookupProposer>()), testing::kSignificance);
}

// Every other parameter that can be combined with a grammar, each alone, checked to have an effect.
TEST(EngineGrammar, TheMaskedDistributionWithEveryOtherParameter) {
  const auto plain_distribution = answer_distribution(distribution_sampling({}));
  for (const testing::SamplingParameter& parameter : testing::sampling_parameters()) {
    SamplingParams sampling;
    parameter.set(sampling);
    if (sampling.min_tokens > 0) continue;  // refused together
    if (!sampling.logit_bias.empty()) sampling.logit_bias = {{'a', 1.5F}, {'1', -1}};
    sampling = distribution_sampling(sampling);
    const auto counts =
        count_answers(sampling, std::make_unique<ToyProposer>(language(), ToyProposer::Options{.likeness = 0.6}));
    EXPECT_GT(p_value_of_counts(counts, answer_distribution(sampling)), testing::kSignificance) << parameter.name;
    EXPECT_LT(p_value_of_counts(counts, plain_distribution), testing::kSignificance)
        << parameter.name << " does nothing";
  }
}

// Reports a q as if the draft's mask had left twice as many tokens.
class UnmaskedProposer final : public testing::WrappedProposer {
 public:
  UnmaskedProposer()
      : WrappedProposer(std::make_unique<ToyProposer>(language(), ToyProposer::Options{.likeness = 0.6})) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    const std::int32_t n_passes = WrappedProposer::propose(tasks);
    for (const DraftTask& task : tasks) {
      for (Distribution& q : task.proposal->q) {
        for (double& probability : q.probabilities) probability /= 2;
      }
    }
    return n_passes;
  }
};

TEST(EngineGrammarNegative, AProposerThatForgetsTheMaskIsNoticed) {
  EXPECT_LT(p_value_of_answers(std::make_unique<UnmaskedProposer>()), testing::kSignificance);
}

}  // namespace
}  // namespace slip
