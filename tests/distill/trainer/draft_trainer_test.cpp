// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/draft_trainer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "distill/trainer/trainer_state_file.h"
#include "engine/speculative/lookup/prompt_lookup.h"
#include "tests/common/address_limit.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::learnable_record;
using testing::make_batch;
using testing::relative_difference;
using testing::small_config;

class DraftTrainerTest : public testing::TrainerTest {};

TEST_F(DraftTrainerTest, LearnsABatchByHeart) {
  TrainerOptions options;
  options.learning_rate = 1e-2;
  DraftTrainer trainer(small_config(), 1, options);
  const auto batch = make_batch(2);
  const TrainStep first = trainer.step(batch);
  for (int i = 0; i < 150; ++i) trainer.step(batch);
  const TrainStep last = trainer.evaluate(batch);
  EXPECT_NEAR(first.loss, 3.5, 1.5);
  EXPECT_LT(last.loss, 0.05);
  EXPECT_GT(last.alpha_greedy, 0.95);
  EXPECT_EQ(last.rows, 10 + 12);
  EXPECT_EQ(trainer.steps(), 151);
}

TEST_F(DraftTrainerTest, EveryLossFalls) {
  for (const char* name : {"kl", "rkl", "jsd", "tv"}) {
    TrainerOptions options;
    options.learning_rate = 5e-3;
    options.loss.kind = parse_loss(name);
    DraftTrainer trainer(small_config(), 1, options);
    const auto batch = make_batch(2);
    const double before = trainer.evaluate(batch).loss;
    for (int i = 0; i < 80; ++i) trainer.step(batch);
    EXPECT_LT(trainer.evaluate(batch).loss, 0.5 * before) << name;
  }
}

// The head's pieces have 256 rows at this vocabulary, so with 300 rows the last piece is padded.
TEST_F(DraftTrainerTest, RoundedProductsLearnTheSame) {
  for (const bool tied : {true, false}) {
    const auto batch = make_batch(50);
    std::vector<float> logits[2];
    double loss[2] = {0, 0};
    for (const Dtype products : {Dtype::kFloat32, Dtype::kBFloat16}) {
      TrainerOptions options;
      options.optimizer = OptimizerKind::kMuon;
      options.products = products;
      DraftTrainer trainer(small_config(tied), 1, options);
      for (int i = 0; i < 20; ++i) trainer.step(batch);
      const std::size_t which = products == Dtype::kBFloat16 ? 1 : 0;
      const TrainStep after = trainer.evaluate(batch);
      EXPECT_GT(after.rows, 256);
      loss[which] = after.loss;
      logits[which] = trainer.logits(std::vector<std::int32_t>{1, 2, 3, 4});
    }
    EXPECT_NEAR(loss[1], loss[0], 0.02 * loss[0]);
    EXPECT_LT(relative_difference(logits[1], logits[0]), 0.1);
    EXPECT_NE(logits[1], logits[0]) << "bfloat16 leaves a trace, or it was not used";
  }
}

TEST_F(DraftTrainerTest, ADraftThatAgreesAlreadyTakesSmallSteps) {
  const auto batch = make_batch(2);
  const std::vector<std::int32_t> text{1, 2, 3, 4};
  TrainerOptions options;
  options.learning_rate = 1e-2;
  const auto moved_by_a_step = [&](bool scale, int steps_before) {
    options.scale_by_loss = false;
    DraftTrainer trained(small_config(), 1, options);
    for (int i = 0; i < steps_before; ++i) trained.step(batch);
    trained.save(folder_ / "state");
    options.scale_by_loss = scale;
    DraftTrainer trainer(small_config(), 1, options);
    trainer.load(folder_ / "state");
    const auto before = trainer.logits(text);
    EXPECT_FALSE(trainer.step(batch).skipped);
    return relative_difference(before, trainer.logits(text));
  };
  EXPECT_LT(moved_by_a_step(true, 100), 0.2 * moved_by_a_step(false, 100));
  // Negative control: on unknown text it trains at the full rate.
  EXPECT_EQ(moved_by_a_step(true, 0), moved_by_a_step(false, 0));
}

// Such a draft must be refused: training it as a plain Llama would publish a different model from the one that served.
TEST_F(DraftTrainerTest, WhatIsMoreThanAPlainLlamaIsRefusedByName) {
  const auto refused = [](const std::function<void(ModelConfig&)>& change) {
    ModelConfig config = small_config();
    change(config);
    try {
      const DraftTrainer trainer(config, 1, TrainerOptions{});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return error.param();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](ModelConfig&) {}), "accepted");
  EXPECT_EQ(refused([](ModelConfig& c) { c.architecture = "MistralForCausalLM"; }), "accepted");
  EXPECT_EQ(refused([](ModelConfig& c) { c.qkv_bias = c.attention_out_bias = true; }), "attention_bias");
  EXPECT_EQ(refused([](ModelConfig& c) { c.mlp_bias = true; }), "mlp_bias");
  EXPECT_EQ(refused([](ModelConfig& c) { c.windows = {4, 0}; }), "sliding_window");
  EXPECT_EQ(refused([](ModelConfig& c) { c.rope_scaling.type = RopeType::kYarn; }), "rope_scaling");
  EXPECT_EQ(refused([](ModelConfig& c) { c.qk_norm = true; }), "architectures");
}

TEST_F(DraftTrainerTest, MicrobatchesDoNotChangeTheStep) {
  std::vector<std::vector<float>> logits;
  std::vector<int> asked_at;
  for (int tokens : {8, 40, 100000}) {
    TrainerOptions options;
    options.microbatch_tokens = tokens;
    DraftTrainer trainer(small_config(), 3, options);
    int asked = 0;
    for (int i = 0; i < 3; ++i) trainer.step(make_batch(4), [&] { return ++asked > 0; });
    asked_at.push_back(asked);
    logits.push_back(trainer.logits(std::vector<std::int32_t>{1, 2, 3, 4}));
  }
  EXPECT_LT(relative_difference(logits[2], logits[0]), 1e-3);
  EXPECT_LT(relative_difference(logits[2], logits[1]), 1e-3);
  EXPECT_EQ(asked_at[0], 4 * asked_at[2]) << "a microbatch for each of the four records";
  EXPECT_EQ(asked_at[1], 2 * asked_at[2]);
}

TEST_F(DraftTrainerTest, SameSeedAndDataGiveTheSameBits) {
  DraftTrainer a(small_config(), 4, {});
  DraftTrainer b(small_config(), 4, {});
  DraftTrainer c(small_config(), 5, {});
  for (int i = 0; i < 5; ++i) {
    a.step(make_batch(3, i));
    b.step(make_batch(3, i));
    c.step(make_batch(3, i));
  }
  EXPECT_TRUE(state_of(a) == state_of(b));
  EXPECT_FALSE(state_of(a) == state_of(c));
}

// Regression: a step of one microbatch held the cores for 50 ms and more, whatever the engine had to do.
TEST_F(DraftTrainerTest, AStepAsksOftenWhetherItMayGoOn) {
  DraftTrainer trainer(small_config(), 4, {});
  int asked = 0;
  trainer.step(make_batch(4), [&] { return ++asked > 0; });
  EXPECT_GE(asked, 15 * small_config().n_layers);
}

TEST_F(DraftTrainerTest, AStepThatIsAbandonedAnywhereChangesNothing) {
  TrainerOptions options;
  options.microbatch_tokens = 20;
  DraftTrainer trainer(small_config(), 4, options);
  trainer.step(make_batch(4));
  const std::string before = state_of(trainer);
  bool abandoned = true;
  int limit = 0;
  for (; abandoned; ++limit) {
    int asked = 0;
    abandoned = false;
    const TrainStep step = trainer.step(make_batch(4, 7), [&] {
      abandoned = ++asked > limit;
      return !abandoned;
    });
    EXPECT_EQ(step.skipped, abandoned);
    EXPECT_TRUE(!abandoned || state_of(trainer) == before) << limit;
  }
  EXPECT_GT(limit, 40);
  DraftTrainer undisturbed(small_config(), 4, options);
  undisturbed.step(make_batch(4));
  undisturbed.step(make_batch(4, 7));
  EXPECT_TRUE(state_of(trainer) == state_of(undisturbed)) << "no gradient of an abandoned step is left over";
}

TEST_F(DraftTrainerTest, ALossThatIsNotANumberIsSkipped) {
  DraftTrainer trainer(small_config(), 4, {});
  trainer.step(make_batch(2));
  const std::string before = state_of(trainer);
  auto poisoned = make_batch(2);
  poisoned[1].target[3].logprobs[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(trainer.step(poisoned).skipped);
  EXPECT_TRUE(state_of(trainer) == before);
  EXPECT_FALSE(trainer.step(make_batch(2)).skipped);
}

TEST_F(DraftTrainerTest, AnEmptyBatchIsNoStep) {
  DraftTrainer trainer(small_config(), 4, {});
  EXPECT_TRUE(trainer.step({}).skipped);
  EXPECT_EQ(trainer.steps(), 0);
}

TEST_F(DraftTrainerTest, TokensBeyondTheContextAreLeftOut) {
  DraftTrainer trainer(small_config(), 4, {});
  const std::vector<ReplayRecord> batch{learnable_record(1, 60, 30)};
  EXPECT_EQ(trainer.evaluate(batch).rows, 64 - 59) << "rows 59 … 63 of a context of 64 predict answer tokens";
  const std::vector<ReplayRecord> hopeless{learnable_record(1, 80, 5)};
  EXPECT_TRUE(trainer.step(hopeless).skipped);
}

TEST_F(DraftTrainerTest, RowsWithoutATargetDoNotTrain) {
  DraftTrainer trainer(small_config(), 4, {}), whole(small_config(), 4, {});
  std::vector<ReplayRecord> masked{learnable_record(1, 5, 12)};
  const std::vector<ReplayRecord> shorter{learnable_record(1, 5, 6)};  // the same first rows
  for (std::size_t i = 6; i < 12; ++i) masked[0].target[i] = {};
  const TrainStep a = trainer.step(masked), b = whole.step(shorter);
  EXPECT_EQ(a.rows, 6);
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5 * b.grad_norm);
  for (TopK& row : masked[0].target) row = {};
  EXPECT_TRUE(trainer.step(masked).skipped);
}

TEST_F(DraftTrainerTest, RowsWithAndWithoutATargetMakeUpTheWhole) {
  DraftTrainer trainer(small_config(), 4, {});
  const std::vector<ReplayRecord> whole{learnable_record(1, 5, 12)};
  std::vector<ReplayRecord> even = whole, odd = whole;
  for (std::size_t i = 0; i < 12; ++i) (i % 2 == 0 ? odd : even)[0].target[i] = {};
  const TrainStep a = trainer.evaluate(even), b = trainer.evaluate(odd), both = trainer.evaluate(whole);
  EXPECT_EQ(a.rows, 6);
  EXPECT_EQ(b.rows, 6);
  EXPECT_NEAR((a.loss + b.loss) / 2, both.loss, 1e-6);
  EXPECT_NEAR((a.alpha_greedy + b.alpha_greedy) / 2, both.alpha_greedy, 1e-9);
}

TEST_F(DraftTrainerTest, TokensThatALookupProposesAnywayDoNotTrain) {
  std::vector<ReplayRecord> batch{learnable_record(1, 5, 30)};
  for (std::size_t i = 10; i < 35; ++i) batch[0].tokens[i] = batch[0].tokens[i - 5];  // it repeats its prompt's end
  std::vector<ReplayRecord> masked = batch;
  PromptLookup lookup;
  for (std::size_t i = 0; i < 30; ++i) {
    const auto before = std::span(batch[0].tokens).first(5 + i);
    lookup.extend(before, 5);
    if (lookup.guess(before).is_confident()) masked[0].target[i] = {};
  }
  DraftTrainer all(small_config(), 4, {}), by_hand(small_config(), 4, {});
  DraftTrainer skipping(small_config(), 4, {.skip_looked_up = true});
  const TrainStep a = skipping.step(batch), b = by_hand.step(masked), c = all.step(batch);
  EXPECT_EQ(c.rows, 30);
  EXPECT_LT(a.rows, 25);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_NE(a.loss, c.loss);
}

TEST_F(DraftTrainerTest, BytesAreThoseOfTheTensors) {
  const std::size_t weights = 4 * static_cast<std::size_t>(small_config().parameters());
  const std::size_t buffers = 256 * 97 * 4;  // a piece of logits, which its slopes replace
  DraftTrainer trainer(small_config(), 4, {});
  const TrainingPasses& passes = *trainer.passes();
  EXPECT_EQ(trainer.bytes(), 4 * weights) << "masters, two moments, averages";
  EXPECT_EQ(passes.bytes(), buffers);
  trainer.step(make_batch(2));
  EXPECT_EQ(trainer.bytes(), 5 * weights) << "and gradients";
  const std::size_t after = passes.bytes();
  EXPECT_GT(after, buffers) << "and those of the layers";
  EXPECT_LT(after, 1U << 20);
  for (int i = 0; i < 3; ++i) trainer.step(make_batch(2));
  EXPECT_EQ(passes.bytes(), after) << "a batch of the same size takes no more";
}

TEST_F(DraftTrainerTest, PassesByHandLearnWhatDifferentiationDoes) {
  for (const bool tied : {true, false}) {
    for (const bool through_prompts : {true, false}) {
      std::vector<float> logits[2];
      double norm[2] = {0, 0};
      for (const bool by_autograd : {false, true}) {
        TrainerOptions options;
        options.optimizer = OptimizerKind::kMuon;
        options.through_prompts = through_prompts;
        options.by_autograd = by_autograd;
        options.microbatch_tokens = 40;
        ModelConfig config = small_config(tied);
        config.n_layers = 3;
        DraftTrainer trainer(config, 1, options);
        norm[by_autograd] = trainer.step(make_batch(5)).grad_norm;
        for (int i = 0; i < 4; ++i) trainer.step(make_batch(5, i));
        logits[by_autograd] = trainer.logits(learnable_record(9, 30, 0).tokens);
      }
      EXPECT_NEAR(norm[0], norm[1], 1e-5 * norm[1]);
      EXPECT_LT(relative_difference(logits[0], logits[1]), 1e-3);
      EXPECT_NE(logits[0], logits[1]) << "they add in another order, or both are the same code";
    }
  }
}

TEST_F(DraftTrainerTest, NegativePromptsThatPassNoGradientOnAreTold) {
  double norm[2] = {0, 0};
  for (const bool through_prompts : {false, true}) {
    TrainerOptions options;
    options.through_prompts = through_prompts;
    DraftTrainer trainer(small_config(), 1, options);
    norm[through_prompts] = trainer.step(make_batch(5)).grad_norm;
  }
  EXPECT_GT(std::abs(norm[0] - norm[1]), 1e-4 * norm[1]) << "the comparison above would see it";
}

// Regression: tensors were filled before LibTorch knew how many threads it may use, so the first trainer of a thread
// started one more for each further core, which then spun beside serving.
TEST_F(DraftTrainerTest, ConstructionStartsNoThreads) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "LibTorch starts no threads on one core";
  ModelConfig config = small_config();
  config.vocab_size = 8192;  // matrices that LibTorch splits
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  std::ptrdiff_t before = 0, after = 0;
  std::thread([&] {  // a new thread has no team of LibTorch's yet
    before = threads();
    const DraftTrainer trainer(config, 4, {});
    after = threads();
  })
      .join();
  EXPECT_EQ(after, before);
}

TEST_F(DraftTrainerTest, RecordsOfAnotherVocabularyAreRefused) {
  DraftTrainer trainer(small_config(), 4, {});
  std::vector<std::vector<ReplayRecord>> bad(4, make_batch(1));
  bad[0][0].tokens[2] = 97;
  bad[1][0].target[0].ids[1] = -1;
  bad[2][0].target.pop_back();
  bad[3][0].target[1].logprobs.pop_back();
  for (const auto& batch : bad) {
    try {
      trainer.step(batch);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
  EXPECT_EQ(trainer.steps(), 0);
}

TEST_F(DraftTrainerTest, AWeightThatIsNotFiniteIsNeverExported) {
  const ModelConfig config = small_config();
  DraftTrainer trainer(config, 4, {});
  trainer.save(folder_ / "state");
  TrainerState state = read_trainer_state(folder_ / "state", config);
  state.floats[100] = std::numeric_limits<float>::infinity();
  write_trainer_state(folder_ / "state", config, state);
  trainer.load(folder_ / "state");
  fs::create_directory(folder_ / "out");
  try {
    trainer.export_draft(folder_ / "out");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(error.message().find("embed_tokens"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

// A buffer that could not grow was gone, but kept its size: the next smaller batch wrote through a null pointer.
TEST(DraftTrainerDeathTest, AfterAStepWithoutMemoryASmallerOneWorks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves terabytes of addresses";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto train_without_room = [] {
    ModelConfig config = small_config();
    config.intermediate_size = 2048;
    config.max_positions = 2048;
    DraftTrainer trainer(config, 1, {});
    const auto small = make_batch(2);
    trainer.step(small);
    const rlimit before = testing::limit_addresses_to_those_in_use();
    bool failed = false;
    try {
      trainer.step(std::vector{learnable_record(1, 1000, 1000)});
    } catch (const std::exception&) {
      failed = true;
    }
    ::setrlimit(RLIMIT_AS, &before);
    const TrainStep step = trainer.step(small);
    std::_Exit(failed && !step.skipped && std::isfinite(step.loss) ? 0 : 1);
  };
  EXPECT_EXIT(train_without_room(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace slip
