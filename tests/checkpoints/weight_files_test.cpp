// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TinyLlama;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// A tiny Llama in two shards, every other tensor in each.
struct Sharded {
  Sharded() {
    for (const auto& [name, tensor] : model.stored()) {
      const char* shard = map.size() % 2 == 0 ? kFirst : kSecond;
      map[name] = shard;
      shards[shard][name] = tensor;
    }
  }
  void write(const std::filesystem::path& folder) const {
    for (const auto& [name, tensors] : shards) write_safetensors(folder / name, tensors, {{"format", "pt"}}, "test");
    std::ofstream(folder / "model.safetensors.index.json")
        << json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
    std::ofstream(folder / "config.json") << to_config_json(model.config);
  }
  TinyLlama model;
  json map = json::object();
  std::map<std::string, TensorMap> shards;
};

Error refusal(const std::filesystem::path& folder) {
  try {
    const WeightFiles files(folder);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "accepted");
}

Error refusal(const std::function<void(Sharded&)>& damage) {
  const TemporaryFolder folder;
  Sharded sharded;
  damage(sharded);
  sharded.write(folder.path());
  return refusal(folder.path());
}

TEST(WeightFiles, ShardsHoldWhatOneFileHolds) {
  const TemporaryFolder folder, whole;
  const Sharded sharded;
  sharded.write(folder.path());
  sharded.model.write(whole.path());
  const WeightFiles parts(folder.path()), one(whole.path());
  EXPECT_TRUE(parts.tensors() == one.tensors());
  EXPECT_THAT(parts.where(), HasSubstr("index.json"));
  EXPECT_THROW(parts.get("absent"), Error);
}

TEST(WeightFiles, TensorsAreEqualDownToTheByte) {
  const TemporaryFolder folder, other;
  TinyLlama model;
  model.write(folder.path());
  model.tensors["model.norm.weight"].values[3] += 1.0F;
  model.write(other.path());
  EXPECT_FALSE(WeightFiles(folder.path()).tensors() == WeightFiles(other.path()).tensors());
}

TEST(WeightFiles, OneFileGoesBeforeAnIndex) {
  const TemporaryFolder folder;
  TinyLlama().write(folder.path());
  folder.write("model.safetensors.index.json", "not even json");
  EXPECT_TRUE(WeightFiles(folder.path()).contains("model.norm.weight"));
}

TEST(WeightFiles, AShardIsAPlainFileName) {
  for (const json& name :
       std::vector<json>{"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", ".hidden.safetensors",
                         "a\\b.safetensors", "model.bin", "a\nb.safetensors", std::string("a\0.safetensors", 14),
                         std::string(300, 'a') + ".safetensors", 7, nullptr, json::array({kFirst})}) {
    const Error error = refusal([&](Sharded& s) { s.map["model.norm.weight"] = name; });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << name << error.what();
    EXPECT_THAT(error.what(), HasSubstr("weight_map"));
  }
}

TEST(WeightFiles, EachTensorIsInTheShardTheIndexSaysAndInNoOther) {
  const auto moved =
      refusal([](Sharded& s) { s.map["model.norm.weight"] = s.map["model.norm.weight"] == kFirst ? kSecond : kFirst; });
  EXPECT_EQ(moved.code(), ErrorCode::kDataLoss);
  EXPECT_THAT(moved.what(), HasSubstr("tensor model.norm.weight is in"));
  EXPECT_THAT(refusal([](Sharded& s) { s.map.erase("model.norm.weight"); }).what(), HasSubstr("is not in the index"));
  EXPECT_THAT(refusal([](Sharded& s) { s.map["ghost"] = kFirst; }).what(), HasSubstr("tensor ghost is not in"));
  const auto twice = refusal([](Sharded& s) {
    for (auto& [name, tensors] : s.shards)
      tensors["model.norm.weight"] = {
          Dtype::kFloat32, {16}, std::as_bytes(std::span(s.model.tensors["model.norm.weight"].values))};
  });
  EXPECT_THAT(twice.what(), HasSubstr("tensor model.norm.weight is in"));
  EXPECT_EQ(refusal([](Sharded& s) { s.shards.erase(kSecond); }).code(), ErrorCode::kNotFound);
}

TEST(WeightFiles, AHostileIndexIsRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"weight_map\": []}", "{\"weight_map\": {}}", "{\"weight_map\": null}",
        "{\"weight_map\": {\"a\": \"b.safetensors\", \"a\": \"c.safetensors\"}}", "{\"weight_map\": {\"a\""}) {
    const TemporaryFolder folder;
    folder.write("model.safetensors.index.json", text);
    EXPECT_EQ(refusal(folder.path()).code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(WeightFiles, AFolderWithoutWeightsSaysTheNextStep) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path()).code(), ErrorCode::kNotFound);
  EXPECT_THAT(refusal(folder.path()).hint(), HasSubstr("model.safetensors"));
  folder.write("pytorch_model.bin", "pickle");
  EXPECT_THAT(refusal(folder.path()).hint(), HasSubstr("never read"));
}

}  // namespace
}  // namespace slip
