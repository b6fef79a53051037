// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json shaped(const char* architecture, const char* model_type, const json& changes = json::object()) {
  json config = json::parse(R"({"hidden_size": 256, "intermediate_size": 688, "max_position_embeddings": 2048,
    "num_attention_heads": 8, "num_hidden_layers": 3, "num_key_value_heads": 4, "vocab_size": 1000})");
  config["architectures"] = {architecture};
  config["model_type"] = model_type;
  config.update(changes);
  return config;
}
json llama(const json& changes = json::object()) {
  return shaped("LlamaForCausalLM", "llama", changes);
}
json qwen2(const json& changes = json::object()) {
  return shaped("Qwen2ForCausalLM", "qwen2", changes);
}
json qwen3(const json& changes = json::object()) {
  return shaped("Qwen3ForCausalLM", "qwen3", changes);
}
json mistral(const json& changes = json::object()) {
  return shaped("MistralForCausalLM", "mistral", changes);
}

ModelConfig parse(const json& config) {
  return parse_model_config(config.dump(), "", "m");
}

// The key that a refusal names, after its code: "unsupported sliding_window".
std::string refusal(const json& config) {
  try {
    parse(config);
    return "accepted";
  } catch (const Error& error) {
    return (error.code() == ErrorCode::kUnsupported ? "unsupported " : "invalid ") + error.param();
  }
}

TEST(Architecture, BiasesAndNormsAreThoseOfTheArchitecture) {
  const auto features = [](const json& config) {
    const ModelConfig read = parse(config);
    return std::array<bool, 4>{read.qkv_bias, read.attention_out_bias, read.mlp_bias, read.qk_norm};
  };
  EXPECT_THAT(features(llama()), ElementsAre(false, false, false, false));
  EXPECT_THAT(features(llama({{"attention_bias", true}})), ElementsAre(true, true, false, false));
  EXPECT_THAT(features(llama({{"mlp_bias", true}})), ElementsAre(false, false, true, false));
  EXPECT_THAT(features(qwen2()), ElementsAre(true, false, false, false));
  EXPECT_THAT(features(qwen3()), ElementsAre(false, false, false, true));
  EXPECT_THAT(features(qwen3({{"attention_bias", true}})), ElementsAre(true, true, false, true));
  EXPECT_THAT(features(mistral()), ElementsAre(false, false, false, false));
  EXPECT_EQ(refusal(mistral({{"attention_bias", true}})), "unsupported attention_bias");
  for (const json& config : {mistral(), qwen2(), qwen3()}) {
    json biased = config;
    biased["mlp_bias"] = true;
    EXPECT_EQ(refusal(biased), "unsupported mlp_bias");
  }
}

TEST(Architecture, AbsentKeysMeanWhatTheirArchitectureTakesThemFor) {
  EXPECT_EQ(parse(llama()).head_dim, 32);
  EXPECT_EQ(parse(qwen2()).head_dim, 32);
  EXPECT_EQ(parse(mistral()).head_dim, 32);
  EXPECT_EQ(parse(qwen3()).head_dim, 128);
  EXPECT_EQ(parse(qwen3({{"head_dim", 64}})).head_dim, 64);
  for (json config : {qwen2(), qwen3(), mistral()}) {
    config.erase("num_key_value_heads");
    EXPECT_EQ(refusal(config), "invalid num_key_value_heads");
    config["num_key_value_heads"] = nullptr;
    EXPECT_EQ(parse(config).n_kv_heads, 8);
  }
  json by_type = qwen3();
  by_type.erase("architectures");
  EXPECT_EQ(parse(by_type).architecture, "Qwen3ForCausalLM");
}

TEST(Architecture, MistralSeesAWindowUnlessTheKeyIsNull) {
  EXPECT_THAT(parse(mistral()).windows, ElementsAre(4096, 4096, 4096));
  EXPECT_THAT(parse(mistral({{"sliding_window", 7}})).windows, ElementsAre(7, 7, 7));
  EXPECT_THAT(parse(mistral({{"sliding_window", nullptr}})).windows, IsEmpty());
  for (const json& bad : std::vector<json>{0, -1, 1.5, "7", true, std::int64_t{1} << 31}) {
    EXPECT_EQ(refusal(mistral({{"sliding_window", bad}})), "invalid sliding_window") << bad;
  }
  const json types = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(refusal(mistral({{"layer_types", types}})), "unsupported layer_types");
}

TEST(Architecture, QwenSeesAWindowWhereItsKeysSay) {
  for (const auto& make : {qwen2, qwen3}) {
    const json window = {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 1}};
    const auto with = [&](const json& changes) {
      json config = make(window);
      config.update(changes);
      return config;
    };
    EXPECT_THAT(parse(make({{"sliding_window", 9}})).windows, IsEmpty());
    EXPECT_THAT(parse(with(json::object())).windows, ElementsAre(0, 9, 9));
    EXPECT_THAT(parse(with({{"max_window_layers", 3}})).windows, IsEmpty());
    EXPECT_THAT(parse(with({{"sliding_window", nullptr}})).windows, IsEmpty());
    const json types = {"sliding_attention", "full_attention", "sliding_attention"};
    EXPECT_THAT(parse(with({{"layer_types", types}})).windows, ElementsAre(9, 0, 9));
    EXPECT_EQ(refusal(make({{"layer_types", types}})), "invalid layer_types");
    EXPECT_EQ(refusal(with({{"layer_types", {"full_attention"}}})), "invalid layer_types");
    EXPECT_EQ(refusal(with({{"layer_types", "full_attention"}})), "invalid layer_types");
    EXPECT_EQ(refusal(with({{"layer_types", {"chunked_attention", "full_attention", "full_attention"}}})),
              "unsupported layer_types");
  }
}

TEST(Architecture, OnlyAPlainLlamaCanLearn) {
  EXPECT_EQ(parse(llama()).beyond_plain_llama(), "");
  EXPECT_EQ(parse(mistral({{"sliding_window", nullptr}})).beyond_plain_llama(), "");
  EXPECT_EQ(parse(mistral()).beyond_plain_llama(), "sliding_window");
  EXPECT_EQ(parse(qwen2()).beyond_plain_llama(), "architectures");
  EXPECT_EQ(parse(qwen3()).beyond_plain_llama(), "architectures");
  EXPECT_EQ(parse(llama({{"attention_bias", true}})).beyond_plain_llama(), "attention_bias");
  EXPECT_EQ(parse(llama({{"mlp_bias", true}})).beyond_plain_llama(), "mlp_bias");
  EXPECT_EQ(parse(llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})).beyond_plain_llama(),
            "rope_scaling");
}

TEST(Architecture, ShapesDifferInEveryFeature) {
  EXPECT_FALSE(parse(llama()).same_shape(parse(mistral({{"sliding_window", nullptr}}))));
  EXPECT_FALSE(parse(llama()).same_shape(parse(llama({{"attention_bias", true}}))));
  EXPECT_FALSE(parse(llama()).same_shape(parse(llama({{"mlp_bias", true}}))));
  EXPECT_FALSE(parse(mistral()).same_shape(parse(mistral({{"sliding_window", 7}}))));
  EXPECT_FALSE(parse(llama()).same_shape(parse(llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}))));
  EXPECT_TRUE(parse(qwen3()).same_shape(parse(qwen3())));
}

}  // namespace
}  // namespace slip
