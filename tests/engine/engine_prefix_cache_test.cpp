// SPDX-License-Identifier: Apache-2.0
// The engine with its prefix cache: answers equal those without it, and common prefixes are read once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/speculative/draft_model_proposer.h"
#include "tests/engine/engine_bench.h"
#include "tests/engine/tiny_draft.h"

namespace slip {
namespace {

using testing::Answer;
using testing::drain;
using testing::full_request;
using Bench = testing::EngineBench;

// Chats with a common prefix: some end within its pages, some continue an earlier answer.
std::vector<std::int32_t> prompt_of(int chat) {
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < 40 + 7 * chat; ++i) prompt.push_back((i < 50 ? i : i * chat) % 23);
  return prompt;
}

std::vector<Answer> answers_of(double prefix_cache, int at_once, std::vector<std::int32_t> k_of = {0, 3}) {
  Bench bench({}, {.max_running = at_once, .prefix_cache = prefix_cache, .seed = 3});
  std::vector<Answer> answers(24);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request asked = full_request(i + 1, prompt_of(static_cast<int>(i) % 6), answers[i]);
    if (i >= 12) {  // the next turn
      asked.prompt.insert(asked.prompt.end(), answers[i - 12].tokens.begin(), answers[i - 12].tokens.end());
      asked.prompt.push_back(static_cast<std::int32_t>(i) % 23);
    }
    asked.max_tokens = 20 + static_cast<std::int32_t>(i);
    asked.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
    asked.sampling.seed = i;
    asked.score_prompt = i % 5 == 0;
    asked.draft = testing::empty_live_draft();
    asked.k = k_of[i % k_of.size()];
    bench.engine->submit(std::move(asked));
    if (i == 11) {
      EXPECT_TRUE(drain(*bench.engine));
    }
  }
  EXPECT_TRUE(drain(*bench.engine));
  return answers;
}

TEST(EnginePrefixCache, NoAnswerDiffers) {
  const auto plain = answers_of(0, 1, {0});
  for (const int at_once : {1, 3, 16}) {
    const auto cached = answers_of(0.25, at_once);
    std::int32_t n_cached = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(plain[i].same_as(cached[i])) << i << " of " << at_once << " at once";
      EXPECT_EQ(plain[i].prompt_logprobs.size(), cached[i].prompt_logprobs.size());
      EXPECT_EQ(plain[i].summary.figures.cached_tokens, 0);
      if (i % 5 == 0) {
        EXPECT_EQ(cached[i].summary.figures.cached_tokens, 0) << "its prompt's logits were wanted";
      }
      n_cached += cached[i].summary.figures.cached_tokens;
    }
    EXPECT_GT(n_cached, 500) << at_once;
  }
}

TEST(EnginePrefixCache, ReadsOnlyWhatIsNew) {
  Bench bench({}, {.max_running = 2});
  Answer first, second;
  std::vector<std::int32_t> prompt(128);
  std::iota(prompt.begin(), prompt.end(), 0);
  for (std::int32_t& token : prompt) token %= 23;
  bench.engine->submit(full_request(1, prompt, first));
  EXPECT_TRUE(drain(*bench.engine));
  const auto n_steps = bench.listener.steps.size();
  for (std::size_t i = 113; i < 116; ++i) prompt[i] = (prompt[i] + 1) % 23;
  prompt.resize(116);
  bench.engine->submit(full_request(2, prompt, second));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(second.summary.figures.cached_tokens, 113);
  EXPECT_EQ(bench.listener.steps[n_steps].prefill_rows, 3);
}

// A hit that leaves one token to read looks like a decoding sequence. A request that only reads its prompt must still
// end at once.
TEST(EnginePrefixCache, APromptThatIsKnownButForItsLastTokenAnswersOrEnds) {
  Bench bench;
  std::vector<Answer> answers(3);
  const std::vector<std::int32_t> prompt = prompt_of(4);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request asked = full_request(i + 1, prompt, answers[i]);
    asked.max_tokens = i == 1 ? 0 : 8;
    asked.sampling.temperature = 0;
    bench.engine->submit(std::move(asked));
    EXPECT_TRUE(drain(*bench.engine));
  }
  const auto n_known = static_cast<std::int32_t>(prompt.size()) - 1;
  EXPECT_EQ(answers[1].summary.figures.cached_tokens, std::min(n_known, 64));
  EXPECT_TRUE(answers[1].tokens.empty());
  EXPECT_EQ(answers[2].tokens, answers[0].tokens);
}

// Drafts keep their pages like the target, by the same option and for each tenant alone.
TEST(EnginePrefixCache, ADraftReadsAPrefixOnceForATenant) {
  kernels::ThreadPool pool(1);
  const auto live_draft = testing::make_live_draft(testing::tiny_draft(testing::tiny_draft_config(23), 1));
  for (const double prefix_cache : {0.25, 0.0}) {
    const EngineOptions options{.k = 1, .max_running = 1, .prefill_chunk = 16, .prefix_cache = prefix_cache};
    auto target = std::make_unique<testing::ToyWorker>(testing::ToyLanguage{});
    auto proposer = std::make_unique<DraftModelProposer>(draft_model_options(options, *target), target->config(), pool);
    const DraftModelProposer& drafts = *proposer;
    Engine engine(options, std::move(target), nullptr, std::move(proposer), nullptr, {});
    std::uint64_t id = 0;
    const auto passes_of = [&](std::uint64_t tenant) {
      const std::int64_t before = drafts.n_passes();
      Answer answer;
      Request asked = full_request(++id, prompt_of(6), answer);  // 82 tokens: five passes of 16 rows
      asked.sampling.temperature = 0;
      asked.max_tokens = 2;
      asked.tenant = {tenant};
      asked.draft = live_draft;
      engine.submit(std::move(asked));
      EXPECT_TRUE(drain(engine));
      return drafts.n_passes() - before;
    };
    const std::int64_t first = passes_of(1), again = passes_of(1), other = passes_of(2);
    EXPECT_EQ(other, first) << "another tenant's draft reads all";
    if (prefix_cache > 0) {
      EXPECT_LT(again, first);
    } else {
      EXPECT_EQ(again, first);
    }
  }
}

TEST(EnginePrefixCache, GivesWayToRequestsThatNeedTheRoom) {
  Bench bench({}, {.max_running = 4, .prefix_cache = 1}, {.n_pages = 8});
  std::vector<Answer> answers(12);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request asked = full_request(i + 1, prompt_of(static_cast<int>(i)), answers[i]);
    asked.max_tokens = 100;
    bench.engine->submit(std::move(asked));
  }
  EXPECT_TRUE(drain(*bench.engine));
  for (const Answer& answer : answers) EXPECT_EQ(answer.summary.reason, StopReason::kLength);
  EXPECT_EQ(bench.engine->n_free_pages(), 8);
}

TEST(EnginePrefixCache, NegativeWhatAFailedStepWroteIsForgotten) {
  Bench bench;
  bench.worker->on_run = [](int n_run) {
    if (n_run == 1) throw std::runtime_error("the device fell over");
  };
  Answer failed, next;
  bench.engine->submit(full_request(1, prompt_of(3), failed));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(failed.summary.reason, StopReason::kFailed);
  bench.engine->submit(full_request(2, prompt_of(3), next));
  EXPECT_TRUE(drain(*bench.engine));
  EXPECT_EQ(next.summary.figures.cached_tokens, 0);
}

}  // namespace
}  // namespace slip
