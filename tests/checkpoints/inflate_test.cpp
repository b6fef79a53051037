// SPDX-License-Identifier: Apache-2.0
// Shapes and refusals; that the function stays the same is tests/engine/models/inflated_model_test.cpp.
#include "checkpoints/inflate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "common/error.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TinyLlama;

ModelConfig demo_target() {
  return load_model_config(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
}

std::string refused_option(const ModelConfig& small, const InflateShape& shape) {
  try {
    inflated_config(small, shape);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.param();
  }
}

TEST(InflatedConfig, TheDemoShapeHasTheParametersOfALargerModel) {
  const ModelConfig large =
      inflated_config(demo_target(), {.hidden_size = 1536, .intermediate_size = 4096, .n_heads = 24, .n_kv_heads = 8});
  EXPECT_EQ(large.n_layers, 6);
  EXPECT_EQ(large.head_dim, 64);
  EXPECT_EQ(large.rms_norm_eps, 2.5e-7);
  EXPECT_NEAR(static_cast<double>(large.parameters()), 160e6, 10e6);
}

TEST(InflatedConfig, AnyWidthFromTheModelsOwnOn) {
  const ModelConfig small = demo_target();
  for (const std::int32_t hidden : {384, 1000, 1536, 2048}) {
    EXPECT_EQ(refused_option(small, {.hidden_size = hidden}), "none") << hidden;
  }
  EXPECT_EQ(inflated_config(small, {.max_positions = 8192}).max_positions, 8192);
}

TEST(InflatedConfig, NothingShrinks) {
  const ModelConfig small = demo_target();
  EXPECT_EQ(refused_option(small, {.hidden_size = 96}), "--hidden");
  EXPECT_EQ(refused_option(small, {.n_layers = 5}), "--layers");
  EXPECT_EQ(refused_option(small, {.intermediate_size = 1023}), "--ffn");
  EXPECT_EQ(refused_option(small, {.n_heads = 3}), "--heads");
  EXPECT_EQ(refused_option(small, {.n_kv_heads = 1}), "--kv-heads");
  EXPECT_EQ(refused_option(small, {.n_layers = -1}), "--layers");
  EXPECT_EQ(refused_option(small, {.max_positions = 512}), "--positions");
}

TEST(InflatedConfig, GroupedQueriesMustFindRoom) {
  const ModelConfig small = demo_target();                                          // groups of 3
  EXPECT_EQ(refused_option(small, {.n_heads = 12, .n_kv_heads = 2}), "none");       // groups of 6
  EXPECT_EQ(refused_option(small, {.n_heads = 8, .n_kv_heads = 4}), "none");        // groups of 2: two copies of each
  EXPECT_EQ(refused_option(small, {.n_heads = 6, .n_kv_heads = 6}), "none");        // groups of 1: three copies of each
  EXPECT_EQ(refused_option(small, {.n_heads = 6, .n_kv_heads = 3}), "--kv-heads");  // groups of 2 in three heads
  EXPECT_EQ(refused_option(small, {.n_heads = 10, .n_kv_heads = 4}), "--kv-heads");  // no whole groups
}

class InflatedFolder : public ::testing::Test {
 protected:
  void inflate(const InflateShape& shape) {
    small_.write(folder_.path() / "small");
    std::ofstream(folder_.path() / "small/tokenizer.json") << "{\"tokenizer\": 1}";
    inflate_checkpoint(folder_.path() / "small", folder_.path() / "large", shape);
  }
  std::vector<float> values(const std::string& name) {
    const SafetensorsFile file(folder_.path() / "large/model.safetensors");
    const auto bytes = file.tensors().at(name).bytes;
    std::vector<float> floats(bytes.size() / 4);
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return floats;
  }
  TemporaryFolder folder_;
  TinyLlama small_;
};

TEST_F(InflatedFolder, IsACompleteCheckpoint) {
  inflate({.hidden_size = 64, .n_layers = 3, .intermediate_size = 40, .n_heads = 6, .n_kv_heads = 3});
  const ModelConfig large = load_model_config(folder_.path() / "large");
  EXPECT_EQ(large.hidden_size, 64);
  EXPECT_EQ(large.eos_ids, small_.config.eos_ids);
  check_llama_tensors(SafetensorsFile(folder_.path() / "large/model.safetensors").tensors(), large, "large");
  std::ifstream tokenizer(folder_.path() / "large/tokenizer.json");
  std::string text;
  std::getline(tokenizer, text);
  EXPECT_EQ(text, "{\"tokenizer\": 1}");
}

// Every byte must cost what a weight costs: the padding into a branch is no run of zeros.
TEST_F(InflatedFolder, PaddingIntoABranchIsRandomAndBackIsZero) {
  inflate({.hidden_size = 64, .n_layers = 3, .intermediate_size = 40, .n_heads = 6, .n_kv_heads = 3});
  for (const char* part :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"}) {
    for (const std::int32_t layer : {0, 2}) {
      const auto weights = values(layer_tensor(layer, part));
      EXPECT_EQ(std::count(weights.begin(), weights.end(), 0.0F), 0) << part << " of layer " << layer;
    }
  }
  for (const char* part : {"self_attn.o_proj", "mlp.down_proj"}) {
    const auto added = values(layer_tensor(2, part));
    EXPECT_EQ(std::count(added.begin(), added.end(), 0.0F), static_cast<std::int64_t>(added.size()));
  }
  const auto back = values(layer_tensor(0, "mlp.down_proj"));  // [64, 40] around [16, 24]
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (i / 40 >= 16 || i % 40 >= 24) {
      EXPECT_EQ(back[i], 0.0F);
    }
  }
}

TEST_F(InflatedFolder, NormWeightsShrinkByTheRootOfTheRatio) {
  inflate({.hidden_size = 64});
  const auto norm = values("model.norm.weight");
  const auto& original = small_.tensors.at("model.norm.weight").values;
  for (std::size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(norm[i], i < 16 ? original[i] / 2 : 0.0F);
}

TEST_F(InflatedFolder, RefusesToWriteOverItsSource) {
  small_.write(folder_.path() / "small");
  EXPECT_THROW(inflate_checkpoint(folder_.path() / "small", folder_.path() / "small", {}), Error);
}

TEST(InflatedConfig, WhatIsMoreThanAPlainLlamaIsRefusedByName) {
  ModelConfig small = TinyLlama().config;
  small.windows = {8, 8};
  try {
    inflated_config(small, {.hidden_size = 64});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.param(), "sliding_window");
  }
}

}  // namespace
}  // namespace slip
