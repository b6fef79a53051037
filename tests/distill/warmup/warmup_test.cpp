// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup.h"

#include <gtest/gtest.h>

#include "checkpoints/draft_meta.h"
#include "distill/warmup/warmup_work.h"
#include "engine/models/fingerprint.h"
#include "engine/models/transformer.h"
#include "tests/common/damage.h"
#include "tests/distill/warmup/warmup_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::StopAt;
using testing::WarmupTest;

TEST_F(WarmupTest, WritesAWholeCheckpointWithItsHistory) {
  StopAt observer;
  const WarmupResult result = run_warmup(options("sql"), observer);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.answers + result.heldout_answers, 14);
  EXPECT_GT(result.heldout_answers, 0);
  EXPECT_GT(result.heldout_loss, 0);
  EXPECT_EQ(observer.phases.size(), 2U);
  const auto draft = ModelWeights::load(folder_ / "sql", Dtype::kBFloat16, /*check_finite=*/true);
  EXPECT_EQ(draft->config.hidden_size, 8);
  EXPECT_EQ(draft->config.vocab_size, 8192);
  EXPECT_EQ(draft->config.eos_ids, load_model_config(folder_ / "target").eos_ids);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "sql" / name)) << name;
  }
  const DraftMeta meta = parse_draft_meta(read_file(folder_ / "sql" / "meta.json", 1 << 20), "meta.json");
  EXPECT_EQ(meta.draft, "sql");
  EXPECT_EQ(meta.reason, "warmup");
  EXPECT_EQ(meta.target, "target");
  EXPECT_EQ(meta.target_fingerprint, target_fingerprint(folder_ / "target"));
  EXPECT_EQ(meta.optimizer_steps, 6U);
  EXPECT_EQ(meta.weights_sha256.size(), 64U);
  EXPECT_FALSE(fs::exists(folder_ / "sql.work"));
}

// Regression: the fingerprint required a tokenizer.json, which such a folder does not have.
TEST_F(WarmupTest, ATargetWithATokenizerModelAloneWillDo) {
  const fs::path target = folder_ / "target", words = fs::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers";
  fs::remove(target / "tokenizer.json");
  fs::copy_file(words / "sentencepiece_bpe" / "tokenizer.model", target / "tokenizer.model");
  fs::permissions(target / "tokenizer_config.json", fs::perms::owner_all);
  write("target/tokenizer_config.json", R"({"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"})");
  write("target/special_tokens_map.json", "{}");
  StopAt observer;
  run_warmup(options("sql"), observer);
  for (const char* name : {"tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "sql" / name)) << name;
  }
  const std::string before = target_fingerprint(target);
  write("target/tokenizer.model", "other");
  EXPECT_NE(target_fingerprint(target), before);
}

// Regression: with given responses, the draft was silently trained on NaN logits.
TEST_F(WarmupTest, ATargetWhoseLogitsAreNoNumbersIsRefused) {
  // Ends in a NaN, of float32 and of bfloat16.
  testing::overwrite(folder_ / "target/model.safetensors", -4, std::string_view("\0\0\xc0\x7f", 4));
  for (const AnswersFrom from : {AnswersFrom::kTarget, AnswersFrom::kData}) {
    WarmupOptions given = options("sql");
    given.answers_from = from;
    given.force = true;
    std::string message;
    EXPECT_EQ(refused(given, &message), ErrorCode::kDataLoss);
    EXPECT_NE(message.find((folder_ / "target").string()), std::string::npos) << message;
  }
}

TEST_F(WarmupTest, AnInterruptedRunComesToTheSameWeights) {
  StopAt never;
  run_warmup(options("whole"), never);
  int interruptions = 0;
  for (int polls : {0, 3, 9, 14, 20, 26, 31, -1}) {  // some while answers are written, some between optimizer steps
    StopAt observer(polls);
    try {
      run_warmup(options("parts"), observer);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kCancelled) << error.message();
      EXPECT_TRUE(fs::exists(folder_ / "parts.work"));
      EXPECT_FALSE(fs::exists(folder_ / "parts"));
      ++interruptions;
    }
  }
  EXPECT_GE(interruptions, 3);
  EXPECT_TRUE(weights("parts") == weights("whole")) << "not bit for bit";
}

TEST_F(WarmupTest, GoingOnFromADraftBeginsAtItsWeights) {
  StopAt observer;
  run_warmup(options("first"), observer);
  WarmupOptions further = options("second");
  further.draft = folder_ / "first";
  further.trainer.learning_rate = 1e-30;  // so small that nothing moves
  run_warmup(further, observer);
  EXPECT_TRUE(weights("second") == weights("first"));
  further.out = folder_ / "third";
  further.trainer.learning_rate = 1e-2;
  run_warmup(further, observer);
  EXPECT_FALSE(weights("third") == weights("first"));
}

TEST_F(WarmupTest, WithoutANumberOfStepsItStopsWhenTheLossIsFlat) {
  WarmupOptions flat = options("flat");
  flat.steps = 0;
  flat.trainer.learning_rate = 1e-30;
  StopAt observer;
  EXPECT_EQ(run_warmup(flat, observer).steps, 200) << "four measurements, fifty steps apart, without a gain";
}

TEST_F(WarmupTest, LossOnTheAnswersFalls) {
  WarmupOptions longer = options("longer");
  longer.steps = 120;
  longer.trainer.learning_rate = 2e-2;
  longer.draft = folder_ / "target";  // the target's own shape
  longer.temperature = 0.0F;
  StopAt observer;
  WarmupOptions once = longer;
  once.draft.clear();
  once.out = folder_ / "scratch";
  once.steps = 1;
  const double before = run_warmup(once, observer).loss;
  once.out = folder_ / "learned";
  once.steps = 120;
  EXPECT_LT(run_warmup(once, observer).loss, 0.8 * before);
}

}  // namespace
}  // namespace slip
