// SPDX-License-Identifier: Apache-2.0
#include "distill/draft_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "checkpoints/safetensors.h"
#include "common/error.h"
#include "distill/trainer_state_file.h"
#include "engine/model/transformer.h"
#include "engine/sample/random.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

ModelConfig small_config(bool tied = true) {
  ModelConfig config;
  config.vocab_size = 97;
  config.hidden_size = 32;
  config.intermediate_size = 40;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 64;
  config.tied_embeddings = tied;
  config.eos_ids = {1};
  return config;
}

int draw(std::uint64_t seed, std::uint32_t index, int below) {
  return static_cast<int>(uniform({seed, 0, index}, RandomPurpose::kDraft) * below);
}

// A target that puts 70 % on one token fixed by the previous one, 20 % on another and the rest in the tail.
ReplayRecord make_record(std::uint64_t seed, int prompt, int answer, int vocab = 97) {
  ReplayRecord record;
  record.request = {seed};
  record.prompt_tokens = prompt;
  for (int i = 0; i < prompt + answer; ++i) record.tokens.push_back(draw(seed, i, vocab));
  for (int i = 0; i < answer; ++i) {
    const int before = prompt + i > 0 ? record.tokens[prompt + i - 1] : 0;
    TopK row;
    row.ids = {(before * 7 + 3) % vocab, (before * 5 + 11) % vocab};
    if (row.ids[0] == row.ids[1]) row.ids[1] = (row.ids[1] + 1) % vocab;
    row.logprobs = {std::log(0.7F), std::log(0.2F)};
    row.log_tail = std::log(0.1F);
    record.target.push_back(row);
  }
  return record;
}

std::vector<ReplayRecord> make_batch(int n, std::uint64_t seed = 1) {
  std::vector<ReplayRecord> batch;
  for (int i = 0; i < n; ++i) batch.push_back(make_record(seed + i, 3 + i, 10 + 2 * i));
  return batch;
}

class DraftTrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("trainer-") + info->name() + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string state_of(const DraftTrainer& trainer) {
    trainer.save(folder_ / "snapshot");
    std::ifstream file(folder_ / "snapshot", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

// Logits of a whole sequence from the serving forward pass in float32.
std::vector<float> served_logits(const fs::path& folder, const std::vector<std::int32_t>& tokens) {
  kernels::ThreadPool pool(1);
  const auto n = static_cast<std::int32_t>(tokens.size());
  LocalWorker worker(ModelWeights::load(folder, Dtype::kFloat32), n, n, n / PagePool::kPageTokens + 1, pool);
  std::vector<std::int32_t> positions(tokens.size());
  for (std::int32_t i = 0; i < n; ++i) positions[i] = i;
  const std::vector<std::int32_t> row_begin{0, n};
  PageTable pages(worker.cache());
  EXPECT_TRUE(pages.reserve(n));
  KvView kv;
  kv.pages = &pages;
  StepInput input;
  input.tokens = tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = {&kv, 1};
  input.logit_rows = positions;
  const std::int64_t vocab = worker.config().vocab_size;
  std::vector<float> logits(tokens.size() * static_cast<std::size_t>(vocab));
  StepOutput output;
  output.logits = TensorView::contiguous(logits.data(), {n, vocab});
  worker.run(input, output);
  return logits;
}

// max |a − b| / max |a|
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max<double>(worst, std::abs(a[i] - b[i]));
    largest = std::max<double>(largest, std::abs(a[i]));
  }
  return worst / largest;
}

TEST_F(DraftTrainerTest, SaysWhatTheServedModelSays) {
  for (const bool tied : {true, false}) {
    DraftTrainer trainer(small_config(tied), 5, {});
    for (int i = 0; i < 5; ++i) trainer.step(make_batch(3));
    const std::vector<std::int32_t> tokens = make_record(9, 50, 0).tokens;
    trainer.export_draft(folder_, Dtype::kFloat32);
    EXPECT_LT(relative_difference(trainer.logits(tokens), served_logits(folder_, tokens)), 1e-4);
    const DraftTrainer again(folder_, {});
    EXPECT_EQ(again.logits(tokens), trainer.logits(tokens)) << "float32 goes to disk and back whole";
    trainer.export_draft(folder_);
    const DraftTrainer rounded(folder_, {});
    EXPECT_LT(relative_difference(rounded.logits(tokens), served_logits(folder_, tokens)), 1e-4);
    EXPECT_LT(relative_difference(rounded.logits(tokens), trainer.logits(tokens)), 2e-2) << "bfloat16 keeps 8 bits";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
}

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

// The first moment after one unclipped step is (1 − β1) · gradient: compared with central differences of the loss.
double worst_gradient_error(const fs::path& folder, const ModelConfig& config, const std::vector<ReplayRecord>& batch,
                            double planted_factor) {
  TrainerOptions options;
  options.max_grad_norm = 0;
  options.microbatch_tokens = 20;  // several microbatches
  DraftTrainer trainer(config, 3, options);
  trainer.save(folder / "before");
  trainer.step(batch);
  trainer.save(folder / "after");
  const TrainerState before = read_trainer_state(folder / "before", config);
  const TrainerState after = read_trainer_state(folder / "after", config);
  const std::size_t n = before.floats.size() / TrainerState::kParts;
  double worst = 0;
  double largest = 0;
  for (std::uint32_t i = 0; i < 80; ++i) {
    const auto at = static_cast<std::size_t>(uniform({77, 0, i}, RandomPurpose::kDraft) * static_cast<double>(n));
    double loss[2];
    for (int side : {0, 1}) {
      TrainerState moved = before;
      moved.floats[at] += side == 0 ? 4e-3F : -4e-3F;
      write_trainer_state(folder / "moved", config, moved);
      trainer.load(folder / "moved");
      loss[side] = trainer.evaluate(batch).loss;
    }
    const double slope = (loss[0] - loss[1]) / 8e-3;
    const double gradient = planted_factor * after.floats[n + at] / (1 - options.beta1);
    largest = std::max(largest, std::abs(slope));
    worst = std::max(worst, std::abs(slope - gradient));
  }
  return worst / largest;
}

TEST_F(DraftTrainerTest, GradientOfTheWholeModelEqualsCentralDifferences) {
  EXPECT_LT(worst_gradient_error(folder_, small_config(true), make_batch(3), 1.0), 0.02);
  EXPECT_LT(worst_gradient_error(folder_, small_config(false), make_batch(3), 1.0), 0.02);
}

TEST_F(DraftTrainerTest, NegativeAGradientOffByATenthIsCaught) {
  EXPECT_GT(worst_gradient_error(folder_, small_config(true), make_batch(3), 1.1), 0.05);
}

TEST_F(DraftTrainerTest, AStepIsAdamW) {
  TrainerOptions options;
  options.max_grad_norm = 0;
  options.learning_rate = 1e-2;
  options.weight_decay = 0.1;
  const ModelConfig config = small_config();
  DraftTrainer trainer(config, 3, options);
  trainer.save(folder_ / "0");
  trainer.step(make_batch(2));
  trainer.save(folder_ / "1");
  const auto before = read_trainer_state(folder_ / "0", config).floats;
  const auto after = read_trainer_state(folder_ / "1", config).floats;
  const std::size_t n = before.size() / TrainerState::kParts;
  for (std::size_t i = 0; i < 97 * 32; i += 13) {  // the embedding decays, the norms do not
    const double g = after[n + i] / (1 - options.beta1);
    EXPECT_NEAR(after[2 * n + i], (1 - options.beta2) * g * g, 1e-9);
    // At the first step both bias corrections cancel: the update is lr · g / (|g| + ε).
    const double expected = before[i] * (1 - 1e-3) - 1e-2 * g / (std::abs(g) + 1e-8);
    EXPECT_NEAR(after[i], expected, 2e-6);
  }
}

// Training it as a plain Llama would publish another model than the one that served.
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

TEST_F(DraftTrainerTest, TheExportIsTheMovingAverageOfTheWeights) {
  const ModelConfig config = small_config();
  for (const double decay : {0.0, 0.6}) {
    TrainerOptions options;
    options.average_decay = decay;
    DraftTrainer trainer(config, 3, options);
    std::vector<float> average;
    std::size_t n = 0;
    for (int step = 0; step <= 30; ++step) {
      if (step > 0) trainer.step(make_batch(2, step));
      trainer.save(folder_ / "state");
      const auto floats = read_trainer_state(folder_ / "state", config).floats;
      n = floats.size() / TrainerState::kParts;
      if (step == 0) average.assign(floats.begin(), floats.begin() + static_cast<std::ptrdiff_t>(n));
      const double keep = step == 0 ? 0 : std::min(decay, step / (step + 9.0));
      for (std::size_t i = 0; i < n; ++i) {
        average[i] = static_cast<float>(keep * average[i] + (1 - keep) * floats[i]);
        ASSERT_NEAR(floats[3 * n + i], average[i], 1e-5) << "step " << step << ", weight " << i;
      }
    }
    const fs::path out = folder_ / ("out" + std::to_string(decay));
    fs::create_directory(out);
    trainer.export_draft(out, Dtype::kFloat32);
    const SafetensorsFile exported(out / "model.safetensors");
    const auto embedding = exported.get("model.embed_tokens.weight").bytes;
    for (std::size_t i = 0; i < embedding.size() / sizeof(float); ++i) {
      float value = 0;
      std::memcpy(&value, embedding.data() + i * sizeof(float), sizeof value);
      ASSERT_NEAR(value, average[i], 1e-5) << i;
    }
  }
}

TEST_F(DraftTrainerTest, MicrobatchesDoNotChangeTheStep) {
  std::vector<std::vector<float>> logits;
  for (int tokens : {8, 40, 100000}) {
    TrainerOptions options;
    options.microbatch_tokens = tokens;
    DraftTrainer trainer(small_config(), 3, options);
    int asked = 0;
    for (int i = 0; i < 3; ++i) trainer.step(make_batch(4), [&] { return ++asked > 0; });
    EXPECT_EQ(asked, tokens == 8 ? 12 : tokens == 40 ? 6 : 3);
    logits.push_back(trainer.logits(std::vector<std::int32_t>{1, 2, 3, 4}));
  }
  EXPECT_LT(relative_difference(logits[2], logits[0]), 1e-3);
  EXPECT_LT(relative_difference(logits[2], logits[1]), 1e-3);
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

TEST_F(DraftTrainerTest, GoesOnFromASavedStateBitForBit) {
  DraftTrainer whole(small_config(), 4, {});
  DraftTrainer other(small_config(), 99, {});
  for (int i = 0; i < 20; ++i) whole.step(make_batch(3, i));
  whole.save(folder_ / "state");
  other.load(folder_ / "state");
  EXPECT_TRUE(state_of(whole) == state_of(other));
  EXPECT_EQ(other.steps(), 20);
  for (int i = 20; i < 25; ++i) {
    const TrainStep a = whole.step(make_batch(3, i));
    const TrainStep b = other.step(make_batch(3, i));
    EXPECT_EQ(a.loss, b.loss);
  }
  EXPECT_TRUE(state_of(whole) == state_of(other));
}

TEST_F(DraftTrainerTest, AnAbandonedStepChangesNothing) {
  TrainerOptions options;
  options.microbatch_tokens = 20;
  DraftTrainer trainer(small_config(), 4, options);
  trainer.step(make_batch(4));
  const std::string before = state_of(trainer);
  int asked = 0;
  const TrainStep step = trainer.step(make_batch(4), [&] { return ++asked < 3; });
  EXPECT_TRUE(step.skipped);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(state_of(trainer) == before);
  DraftTrainer undisturbed(small_config(), 4, options);
  undisturbed.step(make_batch(4));
  trainer.step(make_batch(4, 7));
  undisturbed.step(make_batch(4, 7));
  EXPECT_TRUE(state_of(trainer) == state_of(undisturbed)) << "no gradient of the abandoned step is left over";
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
  const std::vector<ReplayRecord> batch{make_record(1, 60, 30)};
  EXPECT_EQ(trainer.evaluate(batch).rows, 64 - 59) << "rows 59 … 63 of a context of 64 predict answer tokens";
  const std::vector<ReplayRecord> hopeless{make_record(1, 80, 5)};
  EXPECT_TRUE(trainer.step(hopeless).skipped);
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

TEST_F(DraftTrainerTest, ADamagedStateFileIsRefusedAndChangesNothing) {
  DraftTrainer trainer(small_config(), 4, {});
  trainer.step(make_batch(2));
  const std::string good = state_of(trainer);
  auto refused = [&](const std::string& content) {
    std::ofstream(folder_ / "bad", std::ios::binary | std::ios::trunc) << content;
    try {
      trainer.load(folder_ / "bad");
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kTooLarge;
    }
  };
  for (std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{50}, good.size() / 2, good.size() - 1}) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_TRUE(refused(flipped)) << at;
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{60}, good.size() - 1}) {
    EXPECT_TRUE(refused(good.substr(0, length))) << length;
  }
  EXPECT_TRUE(refused(good + "x"));
  EXPECT_TRUE(state_of(trainer) == good);
  DraftTrainer other_shape(small_config(/*tied=*/false), 4, {});
  EXPECT_THROW(other_shape.load(folder_ / "snapshot"), Error);
  EXPECT_THROW(trainer.load(folder_ / "nothing here"), Error);
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

}  // namespace
}  // namespace slip
