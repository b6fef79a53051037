// SPDX-License-Identifier: Apache-2.0
// The embedded target with drafts cut out of itself: token ids, log probabilities and raw-logit checksums with
// speculation equal those without, in both dtypes, through swaps in mid-answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "checkpoints/safetensors.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/plain_decode.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using testing::Answer;

// A draft of the target's first two layers, or of its first and last: a good and a bad one of the same shape.
std::shared_ptr<const ModelWeights> layers_of_target(bool last_layer, Dtype dtype) {
  const testing::TemporaryFolder folder;
  ModelConfig config = load_model_config(testing::embedded_target_folder());
  std::string kept = "layers.";
  kept += std::to_string(last_layer ? config.n_layers - 1 : 1);
  kept += '.';
  config.n_layers = 2;
  folder.write("config.json", to_config_json(config));
  const SafetensorsFile whole(testing::embedded_target_folder() / "model.safetensors");
  std::map<std::string, StoredTensor, std::less<>> tensors;
  for (const auto& [name, tensor] : whole.tensors()) {
    const auto at = name.find(kept);
    if (at != std::string::npos) {
      tensors[std::string(name).replace(at, kept.size(), "layers.1.")] = tensor;
    } else if (name.find("layers.") == std::string::npos || name.find("layers.0.") != std::string::npos) {
      tensors[name] = tensor;
    }
  }
  write_safetensors(folder.path() / "model.safetensors", tensors, {}, "test");
  return ModelWeights::load(folder.path(), dtype);
}

struct Swapper final : StepListener {
  std::shared_ptr<LiveDraft> live_draft;
  std::vector<std::shared_ptr<const ModelWeights>> weights;
  int n_steps = 0, every = 0, n_swaps = 0;
  int n_stalled = 0;  // steps in which some decoding sequence got no token
  void on_step(const StepFigures& step) noexcept override {
    n_stalled += step.committed < step.n_decoding ? 1 : 0;
    if (every == 0 || ++n_steps % every != 0) return;
    auto next = std::make_shared<DraftVersion>(*live_draft->get());
    next->weights = weights[++next->number % 2];
    live_draft->set(std::move(next));
    live_draft->reclaim();
    ++n_swaps;
  }
};

struct Case {
  Dtype dtype = Dtype::kBFloat16;
  SamplingParams sampling;
  std::int32_t k = 0, concurrency = 1;
  int swap_every = 0;
  std::int32_t prefill_chunk = 20;
  bool score_prompts = false;
  std::size_t n_requests = 2;
  std::int32_t max_tokens = 24;
  std::int32_t tree_width = 1;
};

std::vector<Answer> answers_of(const Case& run, Swapper& swapper) {
  static std::map<Dtype, std::vector<std::shared_ptr<const ModelWeights>>> drafts;
  auto& pair = drafts[run.dtype];
  if (pair.empty()) pair = {layers_of_target(true, run.dtype), layers_of_target(false, run.dtype)};
  const auto tokenizer = Tokenizer::load(testing::embedded_target_folder());
  const auto chat = ChatTemplate::load(testing::embedded_target_folder());
  const auto weights = testing::embedded_target(run.dtype);
  kernels::ThreadPool pool(1);
  auto first = std::make_shared<DraftVersion>();
  first->number = 1;
  first->weights = pair[1];
  swapper.live_draft = std::make_shared<LiveDraft>(DraftId{0}, "cut", first);
  swapper.weights = pair;
  swapper.every = run.swap_every;
  EngineOptions options{.k = run.k, .max_running = run.concurrency, .prefill_chunk = run.prefill_chunk};
  options.tree_width = run.tree_width;
  auto worker = std::make_unique<LocalWorker>(weights, 256, 128, 64 * run.concurrency, pool);
  Engine engine(options, std::move(worker), tokenizer, pool, nullptr, {&swapper});
  const std::vector<std::string> prompts{"How many apples are left if Tom eats 3 of 12?",
                                         "Write a function that sorts a list."};
  std::vector<Answer> answers(run.n_requests);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string& prompt = prompts[i % prompts.size()];
    Request request = testing::full_request(i + 1, chat.render(*tokenizer, {{"user", prompt}}, true), answers[i]);
    request.sampling = run.sampling;
    request.max_tokens = run.max_tokens;
    request.score_prompt = run.score_prompts;
    request.end_ids = weights->config.eos_ids;
    request.draft = swapper.live_draft;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  return answers;
}

std::vector<Answer> answers_of(const Case& run) {
  Swapper swapper;
  return answers_of(run, swapper);
}

class EngineOnTheTarget : public ::testing::TestWithParam<Dtype> {};

TEST_P(EngineOnTheTarget, SpeculationChangesNoBit) {
  const std::vector<SamplingParams> modes{{.temperature = 0}, {.temperature = 0.7F, .top_p = 0.9F, .seed = 42}};
  for (const SamplingParams& sampling : modes) {
    const auto plain = answers_of({.dtype = GetParam(), .sampling = sampling});
    std::int32_t accepted = 0, siblings = 0;
    for (const std::int32_t k : {1, 3, 5, 8}) {
      for (const std::int32_t concurrency : {1, 8}) {
        const int swap_every = concurrency == 1 ? 0 : 3;
        Case drafted{GetParam(), sampling, k, concurrency, swap_every};
        drafted.tree_width = k == 3 ? 2 : k == 5 ? 3 : 1;
        const auto answers = answers_of(drafted);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " concurrency " << concurrency << " answer " << i;
          EXPECT_NE(answers[i].summary.figures.checksum, 0U);
          EXPECT_TRUE(swap_every == 0 || answers[i].summary.figures.steps < 8 || answers[i].summary.figures.swaps > 0);
          accepted += answers[i].summary.figures.accepted;
          siblings += answers[i].summary.figures.accepted_siblings;
        }
      }
    }
    EXPECT_GT(accepted, 20);
    EXPECT_GT(siblings, 5);
  }
}

// A swap at every step: no request fails, no answer changes, and every decoding sequence gets its token in every step.
TEST_P(EngineOnTheTarget, AThousandSwapsUnderLoadDelayNoToken) {
  Case run{.dtype = GetParam(), .sampling = {.temperature = 0.7F, .top_p = 0.9F, .seed = 42}, .concurrency = 4};
  run.n_requests = GetParam() == Dtype::kBFloat16 ? 120 : 56;  // with AMX's bits the answers are half as long
  run.max_tokens = 120;
  const auto plain = answers_of(run);
  run.k = 3;
  run.swap_every = 1;
  Swapper swapper;
  const auto answers = answers_of(run, swapper);
  EXPECT_GE(swapper.n_swaps, 1000);
  EXPECT_EQ(swapper.n_stalled, 0);
  std::int64_t swaps = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i].same_as(plain[i])) << "answer " << i;
    swaps += answers[i].summary.figures.swaps;
  }
  EXPECT_GT(swaps, 500) << "versions that sequences took up";
}

// Log probabilities [2 a token] of a prompt as one forward pass gives them: each token's own and the best of its row.
std::vector<float> plain_scores(const std::vector<std::int32_t>& prompt, Dtype dtype) {
  kernels::ThreadPool pool(1);
  const auto n = static_cast<std::int32_t>(prompt.size());
  LocalWorker worker(testing::embedded_target(dtype), n, n, 64, pool);
  testing::PlainSequence sequence(worker);
  const auto& logits = sequence.feed_at_once(prompt, n);
  const auto vocabulary = static_cast<std::size_t>(worker.config().vocab_size);
  std::vector<float> scores;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * vocabulary, vocabulary);
    const double normalizer = log_normalizer(row);
    scores.push_back(static_cast<float>(row[static_cast<std::size_t>(prompt[i])] - normalizer));
    scores.push_back(static_cast<float>(*std::max_element(row.begin(), row.end()) - normalizer));
  }
  return scores;
}

TEST_P(EngineOnTheTarget, AScoredPromptIsAPlainForwardPassToTheBit) {
  const SamplingParams sampling{.temperature = 0.7F, .top_p = 0.9F, .repetition_penalty = 1.2F, .seed = 42};
  const auto unscored = answers_of({.dtype = GetParam(), .sampling = sampling});
  for (const auto& [chunk, k, concurrency, swap_every] :
       {std::array{1, 0, 8, 0}, std::array{7, 3, 1, 3}, std::array{200, 3, 8, 0}}) {
    const auto answers = answers_of({GetParam(), sampling, k, concurrency, swap_every, chunk, /*score_prompts=*/true});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      std::vector<std::int32_t> prompt;
      std::vector<float> scores;
      for (const TokenLogprobs& token : answers[i].prompt_logprobs) {
        prompt.push_back(token.token);
        if (prompt.size() == 1) continue;
        scores.insert(scores.end(), {token.logprob, token.top.at(0).logprob});
      }
      ASSERT_GT(prompt.size(), 8U);
      EXPECT_EQ(scores, plain_scores(prompt, GetParam())) << "chunk " << chunk << " k " << k << " answer " << i;
      EXPECT_TRUE(answers[i].same_as(unscored[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EngineOnTheTarget, ::testing::Values(Dtype::kBFloat16, Dtype::kFloat32),
                         [](const auto& dtype) { return dtype.param == Dtype::kFloat32 ? "float32" : "bfloat16"; });

}  // namespace
}  // namespace slip
