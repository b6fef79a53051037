// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/model_config.h"
#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/engine/models/formula_model.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::filesystem::path kTarget = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
constexpr int kWords = 8192;  // of the target

json small_model(const char* architecture, const char* model_type, int n_words) {
  return {{"architectures", {architecture}},
          {"model_type", model_type},
          {"vocab_size", n_words},
          {"hidden_size", 16},
          {"intermediate_size", 16},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 8},
          {"max_position_embeddings", 64},
          {"tie_word_embeddings", true}};
}

class LoadDraft : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { target_ = load_target(kTarget, Dtype::kBFloat16); }
  static void TearDownTestSuite() { target_ = {}; }

  // "accepted", or what is wrong.
  static std::string load(const std::filesystem::path& folder) {
    try {
      load_draft_weights(folder, Dtype::kBFloat16, target_);
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.param(), "draft");
      return error.message();
    }
  }
  std::string load_of_size(int n_words) const {
    testing::write_formula_model(folder_.path(), small_model("LlamaForCausalLM", "llama", n_words), Dtype::kBFloat16);
    return load(folder_.path());
  }
  // The target's own words with a change, in a model of as many.
  std::string load_with_words(void (*change)(json& tokenizer)) const {
    std::ifstream file(kTarget / "tokenizer.json");
    json tokenizer = json::parse(file);
    change(tokenizer);
    folder_.write("tokenizer.json", tokenizer.dump());
    return load_of_size(kWords);
  }

  static TargetModel target_;
  const testing::TemporaryFolder folder_;
};
TargetModel LoadDraft::target_;

TEST_F(LoadDraft, MayBeOfAnyArchitecture) {
  for (const auto& [architecture, type] : {std::pair{"LlamaForCausalLM", "llama"},
                                           {"MistralForCausalLM", "mistral"},
                                           {"Qwen2ForCausalLM", "qwen2"},
                                           {"Qwen3ForCausalLM", "qwen3"}}) {
    testing::write_formula_model(folder_.path(), small_model(architecture, type, kWords), Dtype::kBFloat16);
    EXPECT_EQ(load(folder_.path()), "accepted") << architecture;
  }
}

// Without a tokenizer only the size can differ: the first id that one of the two has not.
TEST_F(LoadDraft, AnotherNumberOfWordsIsRefusedByTheFirstIdThatIsMissing) {
  EXPECT_THAT(load_of_size(kWords - 1), HasSubstr("token id 8191 differs"));
  EXPECT_THAT(load_of_size(kWords + 64), HasSubstr("token id 8192 differs"));
}

TEST_F(LoadDraft, AnotherWordIsRefusedByItsId) {
  EXPECT_EQ(load_with_words([](json&) {}), "accepted");
  EXPECT_THAT(load_with_words([](json& tokenizer) {
                auto& words = tokenizer["model"]["vocab"];
                std::string at_400, at_777;
                for (const auto& [word, id] : words.items()) {
                  if (id == 400) at_400 = word;
                  if (id == 777) at_777 = word;
                }
                std::swap(words[at_400], words[at_777]);
              }),
              HasSubstr("token id 400 differs"));
  EXPECT_THAT(load_with_words([](json& tokenizer) {
                auto& words = tokenizer["model"]["vocab"];
                words["<|another|>"] = words["<|user|>"];
                words.erase("<|user|>");
                tokenizer["added_tokens"][2]["content"] = "<|another|>";
              }),
              HasSubstr("token id 2 differs"));
}

// Bug: the system ended the process in the middle of the loading.
TEST(LoadTarget, WeightsThatDoNotFitIntoMemoryAreRefusedBeforeTheyAreRead) {
  const testing::TemporaryFolder folder;
  json config = small_model("LlamaForCausalLM", "llama", kWords);
  config["hidden_size"] = 16384;
  config["intermediate_size"] = 65536;
  config["num_hidden_layers"] = 1000;
  folder.write("config.json", config.dump());
  try {
    load_target(folder.path(), Dtype::kBFloat16);
    ADD_FAILURE() << "this machine has 6 TB?";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_THAT(error.message(), HasSubstr("billion parameters, which take"));
    EXPECT_THAT(error.message(), HasSubstr("; this process may use "));
  }
  const std::uint64_t bytes = require_memory_for_weights(kTarget, load_model_config(kTarget), Dtype::kBFloat16);
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(load_target(kTarget, Dtype::kBFloat16).weights->bytes()),
              0.02 * static_cast<double>(bytes));
}

}  // namespace
}  // namespace slip::cli
