// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/llama_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TinyLlama;

std::string complaint(const std::function<void(TinyLlama&)>& damage, bool tied = false) {
  const TemporaryFolder folder;
  TinyLlama model(tied);
  damage(model);
  model.write(folder.path());
  try {
    check_llama_tensors(SafetensorsFile(weights_path(folder.path())), model.config, "m");
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
  EXPECT_EQ(complaint([](TinyLlama&) {}), "accepted");
  EXPECT_EQ(complaint([](TinyLlama& m) { m.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}); }), "accepted");
  EXPECT_THAT(complaint([](TinyLlama& m) { m.tensors.erase("model.layers.1.mlp.up_proj.weight"); }),
              HasSubstr("model.layers.1.mlp.up_proj.weight is missing"));
  EXPECT_THAT(complaint([](TinyLlama& m) { m.add("model.norm.weight", {17}); }),
              HasSubstr("model.norm.weight has shape [17]"));
  EXPECT_THAT(complaint([](TinyLlama& m) { m.add("model.norm.weight", {16, 1}); }), HasSubstr("config.json says [16]"));
}

// A bias that is read past in silence gives another model's answers.
TEST(LlamaTensors, RefusesWhatItWouldIgnore) {
  EXPECT_THAT(complaint([](TinyLlama& m) { m.add("model.layers.0.self_attn.q_proj.bias", {16}); }),
              HasSubstr("q_proj.bias"));
  EXPECT_THAT(complaint([](TinyLlama& m) {
                m.add("model.layers.2.mlp.up_proj.weight", {24, 16});
              }),
              HasSubstr("model.layers.2.mlp.up_proj.weight"));
}

TEST(LlamaTensors, ATiedHeadMayOnlyBeACopy) {
  EXPECT_EQ(complaint([](TinyLlama& m) { m.tensors["lm_head.weight"] = m.tensors["model.embed_tokens.weight"]; }, true),
            "accepted");
  EXPECT_THAT(complaint(
                  [](TinyLlama& m) {
                    m.add("lm_head.weight", {32, 16});
                  },
                  true),
              HasSubstr("lm_head.weight differs"));
  EXPECT_THAT(complaint([](TinyLlama& m) { m.tensors.erase("lm_head.weight"); }, false),
              HasSubstr("lm_head.weight is missing"));
}

TEST(LlamaTensors, WeightsInOtherFilesAreRefusedWithTheNextStep) {
  const auto error_of = [](const std::filesystem::path& folder) {
    try {
      weights_path(folder);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::kInternal, "accepted");
  };
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder.path()).code(), ErrorCode::kNotFound);
  folder.write("pytorch_model.bin", "pickle");
  EXPECT_THAT(error_of(folder.path()).hint(), HasSubstr("never read"));
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(error_of(folder.path()).code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error_of(folder.path()).hint(), HasSubstr("one model.safetensors"));
}

}  // namespace
}  // namespace slip
