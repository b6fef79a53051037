// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/llama_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TinyLlama;

std::string refusal(const std::function<void(TinyLlama&)>& damage, bool tied = false) {
  const TemporaryFolder folder;
  TinyLlama model(tied);
  damage(model);
  model.write(folder.path());
  try {
    check_llama_tensors(WeightFiles(folder.path()).tensors(), model.config, "m");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    return error.what();
  }
  return "accepted";
}

TEST(LlamaTensors, CountsOfParametersAgree) {
  for (const bool tied : {false, true}) {
    const TinyLlama model(tied);
    std::int64_t n = 0;
    for (const auto& [name, shape] : llama_tensor_shapes(model.config))
      n += shape[0] * (shape.size() > 1 ? shape[1] : 1);
    EXPECT_EQ(n, model.config.parameters());
  }
}

TEST(LlamaTensors, TakesExactlyTheModelItsConfigurationDescribes) {
  EXPECT_EQ(refusal([](TinyLlama&) {}), "accepted");
  EXPECT_EQ(refusal([](TinyLlama& m) { m.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}); }), "accepted");
  EXPECT_THAT(refusal([](TinyLlama& m) { m.tensors.erase("model.layers.1.mlp.up_proj.weight"); }),
              HasSubstr("model.layers.1.mlp.up_proj.weight is missing"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.add("model.norm.weight", {17}); }),
              HasSubstr("model.norm.weight has shape [17]"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.add("model.norm.weight", {16, 1}); }), HasSubstr("config.json says [16]"));
}

// A bias that is read past in silence gives another model's answers.
TEST(LlamaTensors, RefusesWhatItWouldIgnore) {
  EXPECT_THAT(refusal([](TinyLlama& m) { m.add("model.layers.0.self_attn.q_proj.bias", {16}); }),
              HasSubstr("q_proj.bias"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.add("model.layers.1.self_attn.o_proj.bias", {16}); }),
              HasSubstr("model.layers.1.self_attn.o_proj.bias is not part of the model"));
  EXPECT_THAT(refusal([](TinyLlama& m) {
                m.add("model.layers.2.mlp.up_proj.weight", {24, 16});
              }),
              HasSubstr("model.layers.2.mlp.up_proj.weight"));
}

TEST(LlamaTensors, ATiedHeadMayOnlyBeACopy) {
  EXPECT_EQ(refusal([](TinyLlama& m) { m.tensors["lm_head.weight"] = m.tensors["model.embed_tokens.weight"]; }, true),
            "accepted");
  EXPECT_THAT(refusal(
                  [](TinyLlama& m) {
                    m.add("lm_head.weight", {32, 16});
                  },
                  true),
              HasSubstr("lm_head.weight differs"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.tensors.erase("lm_head.weight"); }, false),
              HasSubstr("lm_head.weight is missing"));
}

// Every feature's tensors are wanted, and counted, and refused in a model without it.
TEST(LlamaTensors, FeaturesBringTheirTensors) {
  const auto names = [](const std::function<void(ModelConfig&)>& change) {
    TinyLlama model;
    change(model.config);
    std::int64_t n = 0;
    std::string text;
    for (const auto& [name, shape] : llama_tensor_shapes(model.config)) {
      n += shape[0] * (shape.size() > 1 ? shape[1] : 1);
      text += name + "\n";
    }
    EXPECT_EQ(n, model.config.parameters());
    return text;
  };
  EXPECT_THAT(names([](ModelConfig& c) { c.qkv_bias = true; }), HasSubstr("layers.1.self_attn.v_proj.bias"));
  EXPECT_THAT(names([](ModelConfig& c) { c.attention_out_bias = true; }), HasSubstr("layers.1.self_attn.o_proj.bias"));
  EXPECT_THAT(names([](ModelConfig& c) { c.mlp_bias = true; }), HasSubstr("layers.0.mlp.down_proj.bias"));
  EXPECT_THAT(names([](ModelConfig& c) { c.qk_norm = true; }), HasSubstr("layers.0.self_attn.k_norm.weight"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.config.qk_norm = true; }), HasSubstr("norm.weight is missing"));
  EXPECT_THAT(refusal([](TinyLlama& m) { m.config.qkv_bias = true; }), HasSubstr("proj.bias is missing"));
}

}  // namespace
}  // namespace slip
