// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

const std::filesystem::path kTarget = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";

// As transformers 4 writes a Llama.
json version_four() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 256, "intermediate_size": 688,
    "max_position_embeddings": 2048, "num_attention_heads": 8, "num_hidden_layers": 4, "num_key_value_heads": 4,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000})");
}

ModelConfig parse(const json& config, const std::string& generation = "") {
  return parse_model_config(config.dump(), generation, "models/m");
}

json with(const char* key, const json& value) {
  json config = version_four();
  config[key] = value;
  return config;
}

std::optional<Error> refusal(const json& config, const std::string& generation = "") {
  try {
    parse(config, generation);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void expect_refused(const char* key, const json& value, ErrorCode code, const char* named = nullptr) {
  const auto error = refusal(with(key, value));
  ASSERT_TRUE(error.has_value()) << key << ": " << value;
  EXPECT_EQ(error->code(), code) << error->what();
  EXPECT_EQ(error->param(), named != nullptr ? named : key) << error->what();
  EXPECT_THAT(error->what(), HasSubstr(named != nullptr ? named : key));
  EXPECT_THAT(error->what(), HasSubstr("models/m/config.json"));
}

TEST(ModelConfig, ReadsTheEmbeddedTarget) {
  const ModelConfig config = load_model_config(kTarget);
  EXPECT_EQ(config.vocab_size, 8192);
  EXPECT_EQ(config.hidden_size, 384);
  EXPECT_EQ(config.intermediate_size, 1024);
  EXPECT_EQ(config.n_layers, 6);
  EXPECT_EQ(config.n_heads, 6);
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.max_positions, 1024);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.stored_dtype, Dtype::kBFloat16);
  EXPECT_THAT(config.eos_ids, ElementsAre(1));
  EXPECT_EQ(config.bos_id, 0);
  EXPECT_EQ(config.pad_id, 5);
  EXPECT_EQ(config.parameters(), 12587904);
}

TEST(ModelConfig, ReadsTheKeysOfTransformersFour) {
  const ModelConfig config = parse(version_four());
  EXPECT_EQ(config.rope_theta, 500000.0);
  EXPECT_EQ(config.stored_dtype, Dtype::kBFloat16);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.pad_id, -1);
  EXPECT_EQ(parse(with("rope_scaling", {{"type", "default"}})).rope_theta, 500000.0);
}

TEST(ModelConfig, ReadsTheKeysOfTransformersFive) {
  json config = version_four();
  for (const char* key : {"rope_theta", "rope_scaling", "torch_dtype"}) config.erase(key);
  config["rope_parameters"] = {{"rope_theta", 250000.0}, {"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  config["dtype"] = "float32";
  config["layer_types"] = {"full_attention", "full_attention", "full_attention", "full_attention"};
  config["head_dim"] = 48;
  const ModelConfig read = parse(config);
  EXPECT_EQ(read.rope_theta, 250000.0);
  EXPECT_EQ(read.stored_dtype, Dtype::kFloat32);
  EXPECT_EQ(read.head_dim, 48);
}

TEST(ModelConfig, AbsentKeysMeanWhatTransformersTakesThemFor) {
  json config = version_four();
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "rope_theta", "rope_scaling", "tie_word_embeddings",
                          "torch_dtype", "bos_token_id", "eos_token_id", "hidden_act", "attention_bias"}) {
    config.erase(key);
  }
  const ModelConfig read = parse(config);
  EXPECT_EQ(read.n_kv_heads, 8);
  EXPECT_EQ(read.rms_norm_eps, 1e-6);
  EXPECT_EQ(read.rope_theta, 10000.0);
  EXPECT_EQ(read.stored_dtype, Dtype::kFloat32);
  EXPECT_FALSE(read.tied_embeddings);
  EXPECT_EQ(read.bos_id, -1);
  EXPECT_THAT(read.eos_ids, IsEmpty());
}

TEST(ModelConfig, EndIdsAreTheUnionOfBothFiles) {
  EXPECT_THAT(parse(version_four(), R"({"eos_token_id": [7, 2, 9]})").eos_ids, ElementsAre(2, 7, 9));
  EXPECT_THAT(parse(with("eos_token_id", {4, 5}), R"({"eos_token_id": 6})").eos_ids, ElementsAre(4, 5, 6));
  EXPECT_THAT(parse(with("eos_token_id", nullptr), R"({"eos_token_id": null})").eos_ids, IsEmpty());
  const auto error = refusal(version_four(), R"({"eos_token_id": [1, true]})");
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->what(), HasSubstr("models/m/generation_config.json"));
  EXPECT_EQ(error->param(), "eos_token_id");
}

// Such a model was served, and refused every chat.
TEST(ModelConfig, AnEndTokenOutsideTheVocabularyIsRefusedByFileAndKey) {
  const std::int32_t n_words = parse(version_four()).vocab_size;
  EXPECT_THAT(parse(with("eos_token_id", n_words - 1)).eos_ids, ElementsAre(n_words - 1));
  const auto in_config = refusal(with("eos_token_id", n_words), "");
  ASSERT_TRUE(in_config.has_value());
  EXPECT_THAT(in_config->what(), HasSubstr("models/m/config.json: \"eos_token_id\" holds " + std::to_string(n_words)));
  EXPECT_EQ(in_config->param(), "eos_token_id");
  const auto in_other = refusal(version_four(), R"({"eos_token_id": [2, )" + std::to_string(n_words) + "]}");
  ASSERT_TRUE(in_other.has_value());
  EXPECT_THAT(in_other->what(), HasSubstr("models/m/generation_config.json: \"eos_token_id\""));
}

TEST(ModelConfig, WhatIsUnderstoodButNotBuiltIsUnsupportedByName) {
  expect_refused("architectures", {"GemmaForCausalLM"}, ErrorCode::kUnsupported);
  expect_refused("architectures", {"MistralForCausalLM"}, ErrorCode::kUnsupported, "model_type");
  expect_refused("model_type", "gpt2", ErrorCode::kUnsupported);
  expect_refused("hidden_act", "gelu", ErrorCode::kUnsupported);
  expect_refused("sliding_window", 4096, ErrorCode::kUnsupported);
  expect_refused("quantization_config", {{"bits", 4}}, ErrorCode::kUnsupported);
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    expect_refused(key, 8, ErrorCode::kUnsupported);
  }
  expect_refused("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, ErrorCode::kUnsupported);
  expect_refused("rope_parameters", {{"rope_type", "longrope"}}, ErrorCode::kUnsupported);
  expect_refused("layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"},
                 ErrorCode::kUnsupported);
  expect_refused("layer_types", {"full_attention", "linear_attention", "full_attention", "full_attention"},
                 ErrorCode::kUnsupported);
  expect_refused("torch_dtype", "int8", ErrorCode::kUnsupported);
  expect_refused("partial_rotary_factor", 0.5, ErrorCode::kUnsupported);
}

TEST(ModelConfig, IntegersOfAnotherTypeOrRangeAreRefusedByName) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& bad : std::vector<json>{true, "8", 8.0, 0, -1, 4294967297, std::int64_t{1} << 31,
                                             (std::int64_t{1} << 32), std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::uint64_t>::max(), json::array({8})}) {
      expect_refused(key, bad, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(ModelConfig, RefusesShapesThatContradictThemselves) {
  expect_refused("num_key_value_heads", 3, ErrorCode::kInvalidArgument);
  expect_refused("num_attention_heads", 12, ErrorCode::kInvalidArgument);
  expect_refused("head_dim", 33, ErrorCode::kInvalidArgument);
  expect_refused("rms_norm_eps", -1e-6, ErrorCode::kInvalidArgument);
  expect_refused("rms_norm_eps", "1e-6", ErrorCode::kInvalidArgument);
  expect_refused("rope_theta", 0, ErrorCode::kInvalidArgument);
  expect_refused("tie_word_embeddings", 1, ErrorCode::kInvalidArgument);
  expect_refused("architectures", json::array(), ErrorCode::kInvalidArgument);
  json config = version_four();
  config["rope_parameters"] = {{"rope_theta", 10000.0}, {"rope_type", "default"}};
  const auto error = refusal(config);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param(), "rope_theta");
}

TEST(ModelConfig, MissingShapeKeysAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "max_position_embeddings"}) {
    json config = version_four();
    config.erase(key);
    const auto error = refusal(config);
    ASSERT_TRUE(error.has_value()) << key;
    EXPECT_THAT(error->what(), HasSubstr(std::string("\"") + key + "\" is missing"));
  }
}

TEST(ModelConfig, WrittenConfigurationsReadBackAlike) {
  for (const ModelConfig& config : {load_model_config(kTarget), parse(version_four(), R"({"eos_token_id": [7, 9]})")}) {
    const ModelConfig again = parse_model_config(to_config_json(config), "", "again");
    EXPECT_TRUE(again.same_shape(config));
    EXPECT_EQ(again.eos_ids, config.eos_ids);
    EXPECT_EQ(again.bos_id, config.bos_id);
    EXPECT_EQ(again.pad_id, config.pad_id);
    EXPECT_EQ(again.tied_embeddings, config.tied_embeddings);
    EXPECT_EQ(again.stored_dtype, config.stored_dtype);
    EXPECT_EQ(again.parameters(), config.parameters());
  }
}

// All frequencies were yarn's, but the context stayed the original one. The first configuration is Qwen2.5's recipe.
TEST(ModelConfig, YarnReachesItsScaledContext) {
  const auto positions = [](std::int32_t stated, const json& scaling) {
    json config = with("rope_scaling", scaling);
    config["max_position_embeddings"] = stated;
    const ModelConfig read = parse(config);
    EXPECT_EQ(parse(json::parse(to_config_json(read))).max_positions, read.max_positions) << scaling;
    return read.max_positions;
  };
  const json qwen = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(positions(32768, qwen), 131072);
  EXPECT_EQ(positions(131072, qwen), 131072);
  EXPECT_EQ(positions(262144, qwen), 262144);
  EXPECT_EQ(positions(1000, {{"type", "yarn"}, {"factor", 1.5}}), 1500);
  EXPECT_EQ(positions(1001, {{"type", "yarn"}, {"factor", 1.5}}), 1501);
  EXPECT_EQ(positions(4096, {{"type", "yarn"}, {"original_max_position_embeddings", 1000}}), 4096);
  EXPECT_EQ(positions(32768, {{"type", "yarn"}, {"factor", 1e6}}), 1 << 20);
  EXPECT_EQ(positions(2048, {{"type", "linear"}, {"factor", 4.0}}), 2048);
}

TEST(ModelConfig, ShapesDifferInAnythingAForwardDependsOn) {
  const ModelConfig config = parse(version_four());
  EXPECT_TRUE(config.same_shape(parse(with("eos_token_id", 99))));
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings"}) {
    EXPECT_FALSE(config.same_shape(parse(with(key, version_four()[key].get<int>() * 2)))) << key;
  }
  EXPECT_FALSE(config.same_shape(parse(with("num_key_value_heads", 8))));
  EXPECT_FALSE(config.same_shape(parse(with("rms_norm_eps", 1e-6))));
  EXPECT_FALSE(config.same_shape(parse(with("rope_theta", 1e4))));
}

TEST(ModelConfig, AFolderThatIsNotThereSaysWhatToDo) {
  const auto error_of = [](const std::filesystem::path& folder) {
    try {
      load_model_config(folder);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::kInternal, "accepted");
  };
  const Error hub = error_of("some-org/some-model");
  EXPECT_EQ(hub.code(), ErrorCode::kNotFound);
  EXPECT_THAT(hub.hint(), HasSubstr("download it first, then pass the folder"));
  EXPECT_THAT(error_of("./nowhere").hint(), HasSubstr("config.json"));
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("no config.json"));
  folder.write("config.json", "{\"vocab_size\": 1, \"vocab_size\": 2}");
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("key twice"));
  folder.write("config.json", version_four().dump());
  EXPECT_NO_THROW(load_model_config(folder.path()));
  folder.write("generation_config.json", "");  // an interrupted copy: its end tokens are not known
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("generation_config.json is empty"));
}

}  // namespace
}  // namespace slip
