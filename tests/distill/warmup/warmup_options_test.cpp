// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_options.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/distill/warmup/warmup_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class WarmupOptionsTest : public testing::WarmupTest {};

TEST_F(WarmupOptionsTest, BadOptionsAndDataAreRefusedByName) {
  struct Wrong {
    const char* param;
    std::function<void(WarmupOptions&)> make;
  };
  const std::vector<Wrong> wrongs = {
      {"share", [](WarmupOptions& o) { o.share = 0; }},
      {"batch", [](WarmupOptions& o) { o.batch = 0; }},
      {"lr", [](WarmupOptions& o) { o.trainer.learning_rate = -1; }},
      {"temperature", [](WarmupOptions& o) { o.temperature = 3.0F; }},
      {"hidden", [](WarmupOptions& o) { o.shape.hidden = 7; }},
      {"kv_heads", [](WarmupOptions& o) { o.shape.kv_heads = 3; }},
      {"data", [](WarmupOptions& o) { o.data.clear(); }},
      {"data", [](WarmupOptions& o) { o.share = 0.08; }},
  };
  for (const Wrong& wrong : wrongs) {
    WarmupOptions bad = options("bad");
    wrong.make(bad);
    std::string message;
    EXPECT_EQ(refused(bad, &message), ErrorCode::kInvalidArgument) << wrong.param;
    EXPECT_NE(message.find(std::string("| ") + wrong.param), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(folder_ / "bad"));
  }
}

// Refused before the target answers anything. On a machine with a usable GPU nothing is refused.
TEST_F(WarmupOptionsTest, ADeviceThatCannotLearnIsRefusedAtOnce) {
  WarmupOptions on_device = options("sql");
  on_device.trainer.device = TrainingDevice::kCuda;
  try {
    check_warmup_options(on_device);
    GTEST_SKIP() << "this machine has one";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kUnavailable);
    EXPECT_EQ(error.param(), "learning.device");
  }
  std::string message;
  refused(on_device, &message);
  EXPECT_NE(message.find("| learning.device"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder_ / "sql.work"));
}

// Regression: a draft that inherited its target's biases, norms and windows could not be trained.
TEST(WarmupDraft, IsAPlainLlamaWhateverTheTarget) {
  ModelConfig target;
  target.architecture = "Qwen3ForCausalLM";
  target.vocab_size = 1000;
  target.n_layers = 2;
  target.rope_theta = 1e6;
  target.rope_scaling.type = RopeType::kYarn;
  target.qkv_bias = target.attention_out_bias = target.mlp_bias = target.qk_norm = true;
  target.windows = {5, 0};
  const ModelConfig draft = draft_config(target, DraftShape{});
  EXPECT_EQ(draft.beyond_plain_llama(), "");
  EXPECT_EQ(draft.architecture, "LlamaForCausalLM");
  EXPECT_EQ(draft.vocab_size, 1000);
  EXPECT_EQ(draft.rope_theta, 1e6);
}

}  // namespace
}  // namespace slip
