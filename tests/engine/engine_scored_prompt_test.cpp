// SPDX-License-Identifier: Apache-2.0
// Log probabilities of a prompt's tokens: the target's raw ones, bit for bit, whatever the chunks, the batch and the
// proposals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/engine_answers.h"
#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using testing::EngineBench;
using testing::ToyLanguage;
using testing::ToyProposer;
using testing::ToyWorker;

constexpr std::int32_t kTop = 2;

std::vector<std::int32_t> some_prompt(std::size_t n_tokens, std::int32_t vocab_size) {
  std::vector<std::int32_t> prompt;
  for (std::size_t i = 0; i < n_tokens; ++i) {
    const auto bits = philox4x32({static_cast<std::uint32_t>(n_tokens), static_cast<std::uint32_t>(i), 0, 0}, {3, 4});
    prompt.push_back(static_cast<std::int32_t>(bits[0] % static_cast<std::uint32_t>(vocab_size)));
  }
  return prompt;
}

// Scores of a prompt by the toy language, without an engine.
std::vector<TokenLogprobs> plain_scores(const ToyLanguage& language, const std::vector<std::int32_t>& prompt) {
  std::vector<TokenLogprobs> scores{{prompt[0], std::nanf(""), {}}};
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const auto logits = language.logits(std::span(prompt).first(i));
    const double normalizer = log_normalizer(logits);
    TokenLogprobs& one = scores.emplace_back();
    one.token = prompt[i];
    one.logprob = static_cast<float>(logits[static_cast<std::size_t>(prompt[i])] - normalizer);
    top_logprobs(logits, kTop, one.top);
  }
  return scores;
}

const std::vector<std::size_t> kLengths{1, 2, 3, 17, 18, 64, 100};

struct Setting {
  std::int32_t k = 0, concurrency = 1, prefill_chunk = 400, max_logit_rows = 256;
  bool scored = true;
  std::int32_t max_tokens = 12;
};

// Scores every other request, or none; the others only fill the batch.
std::vector<Answer> answers_of(const Setting& setting) {
  const ToyLanguage language;
  EngineOptions options;
  options.k = setting.k;
  options.max_running = setting.concurrency;
  options.prefill_chunk = setting.prefill_chunk;
  auto worker = std::make_unique<ToyWorker>(language, ToyWorker::Size{.max_logit_rows = setting.max_logit_rows});
  Engine engine(options, std::move(worker), nullptr,
                std::make_unique<ToyProposer>(language, ToyProposer::Options{.likeness = 0.7F}), nullptr, {});
  std::vector<Answer> answers(2 * kLengths.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const bool company = i % 2 == 1;
    Request request =
        testing::full_request(i + 1, some_prompt(company ? 40 : kLengths[i / 2], language.vocab_size), answers[i]);
    request.sampling = {.temperature = 0.8F, .top_k = 9, .repetition_penalty = 1.2F, .seed = 11};
    request.max_tokens = company ? 30 : setting.max_tokens;
    request.score_prompt = setting.scored && !company;
    request.draft = testing::empty_live_draft();
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(drain(engine));
  return answers;
}

bool same_scores(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  const auto same_top = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  };
  const auto same = [&](const TokenLogprobs& x, const TokenLogprobs& y) {
    const bool same_logprob = x.logprob == y.logprob || (std::isnan(x.logprob) && std::isnan(y.logprob));
    return x.token == y.token && same_logprob &&
           std::equal(x.top.begin(), x.top.end(), y.top.begin(), y.top.end(), same_top);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

TEST(EngineScoredPrompt, IsTheTargetsOwnWordInEverySetting) {
  const ToyLanguage language;
  const auto unscored = answers_of({.scored = false});
  for (const Setting& setting :
       {Setting{}, Setting{.prefill_chunk = 1}, Setting{.k = 3, .prefill_chunk = 3}, Setting{.k = 5, .concurrency = 8},
        Setting{.k = 3, .concurrency = 8, .prefill_chunk = 20},
        Setting{.k = 3, .concurrency = 8, .prefill_chunk = 64, .max_logit_rows = 9},
        Setting{.k = 0, .concurrency = 3, .prefill_chunk = 50, .max_logit_rows = 5}}) {
    const auto answers = answers_of(setting);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const bool scored = i % 2 == 0;
      const auto expected = scored ? plain_scores(language, some_prompt(kLengths[i / 2], language.vocab_size))
                                   : std::vector<TokenLogprobs>{};
      EXPECT_TRUE(same_scores(answers[i].prompt_logprobs, expected))
          << "k " << setting.k << " chunk " << setting.prefill_chunk << " request " << i;
      EXPECT_TRUE(answers[i].same_as(unscored[i])) << "to ask for it changed the answer";
    }
  }
}

TEST(EngineScoredPromptNegative, ARowOffByOneIsNoticed) {
  const ToyLanguage language;
  const auto prompt = some_prompt(18, language.vocab_size);
  auto shifted = plain_scores(language, prompt);
  std::rotate(shifted.begin() + 1, shifted.begin() + 2, shifted.end());
  for (std::size_t i = 1; i < shifted.size(); ++i) shifted[i].token = prompt[i];
  EXPECT_FALSE(same_scores(plain_scores(language, prompt), shifted));
}

TEST(EngineScoredPrompt, MayBeAllThatIsAskedFor) {
  const ToyLanguage language;
  for (const Setting& setting : {Setting{.k = 3, .concurrency = 8, .prefill_chunk = 7, .max_tokens = 0},
                                 Setting{.concurrency = 1, .max_tokens = 0}}) {
    const auto answers = answers_of(setting);
    for (std::size_t i = 0; i < answers.size(); i += 2) {
      const auto prompt = some_prompt(kLengths[i / 2], language.vocab_size);
      EXPECT_TRUE(same_scores(answers[i].prompt_logprobs, plain_scores(language, prompt))) << prompt.size();
      EXPECT_TRUE(answers[i].tokens.empty());
      EXPECT_EQ(answers[i].n_finished, 1);
      EXPECT_EQ(answers[i].summary.reason, StopReason::kLength);
      EXPECT_EQ(answers[i].summary.figures.steps, 0);
      EXPECT_EQ(answers[i].summary.figures.prompt_tokens, static_cast<std::int32_t>(prompt.size()));
    }
  }
}

// A request without an answer is not drafted and not observed.
TEST(EngineScoredPrompt, WithoutAnAnswerNobodyElseHearsOfIt) {
  EngineBench bench;
  std::vector<Answer> answers(2);
  for (std::size_t i = 0; i < 2; ++i) {
    Request request = bench.request(i + 1, answers[i], /*max_tokens=*/0);
    request.prompt = some_prompt(30, bench.language.vocab_size);
    request.score_prompt = i == 0;
    bench.engine->submit(std::move(request));
  }
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(bench.proposer->n_calls, 0);
  EXPECT_TRUE(bench.observations.begun.empty());
  EXPECT_EQ(bench.listener.finished.size(), 2U);
  EXPECT_EQ(answers[0].prompt_logprobs.size(), 30U);
  EXPECT_TRUE(answers[1].prompt_logprobs.empty());
  EXPECT_EQ(answers[1].n_deltas, 0);
}

TEST(EngineScoredPrompt, LogitsThatAreNotFiniteEndTheirRequestAlone) {
  EngineBench bench({}, {.max_running = 2});
  bench.worker->spoil = [&](const StepInput& input, std::span<float> logits) {
    if (bench.worker->n_runs == 1 && input.logit_rows.size() > 5) logits[4] = std::nanf("");
  };
  Answer broken, fine;
  Request request = bench.request(1, broken);
  request.prompt = some_prompt(30, bench.language.vocab_size);
  request.score_prompt = true;
  request.max_tokens = 0;
  bench.engine->submit(std::move(request));
  bench.engine->step();
  bench.engine->submit(bench.request(2, fine));
  EXPECT_TRUE(drain(*bench.engine));
  ASSERT_EQ(broken.summary.reason, StopReason::kFailed);
  EXPECT_EQ(broken.summary.error->code(), ErrorCode::kDataLoss);
  EXPECT_EQ(fine.summary.reason, StopReason::kLength);
}

}  // namespace
}  // namespace slip
