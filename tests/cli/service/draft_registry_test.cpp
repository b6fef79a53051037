// SPDX-License-Identifier: Apache-2.0
#include "cli/service/draft_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/model_config.h"
#include "checkpoints/weight_files.h"
#include "cli/target_worker.h"
#include "common/error.h"
#include "tests/engine/models/formula_model.h"
#include "tests/kernels/cuda/host_queue.h"
#include "text/tokenizer.h"

namespace slip::cli {
namespace {

using nlohmann::json;

const std::filesystem::path kTarget = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";

// A draft, for the embedded target by default; `layers` makes another one.
void write_draft(const std::filesystem::path& folder, int layers, int vocab_size = 8192) {
  std::filesystem::create_directories(folder);
  testing::write_formula_model(folder,
                               {{"architectures", {"LlamaForCausalLM"}},
                                {"vocab_size", vocab_size},
                                {"hidden_size", 16},
                                {"intermediate_size", 16},
                                {"num_hidden_layers", layers},
                                {"num_attention_heads", 2},
                                {"max_position_embeddings", 64},
                                {"tie_word_embeddings", true}},
                               Dtype::kBFloat16);
}

// The same model with every other tensor in each of two shards.
void cut_in_two(const std::filesystem::path& folder) {
  json weight_map = json::object();
  {
    const WeightFiles whole(folder);
    TensorMap shards[2];
    for (const auto& [name, tensor] : whole.tensors()) {
      const std::size_t shard = weight_map.size() % 2;
      weight_map[name] = "part-" + std::to_string(shard) + ".safetensors";
      shards[shard][name] = tensor;
    }
    for (const int i : {0, 1}) {
      write_safetensors(folder / ("part-" + std::to_string(i) + ".safetensors"), shards[i], {}, "test");
    }
  }
  std::ofstream(folder / "model.safetensors.index.json") << json{{"weight_map", weight_map}};
  std::filesystem::remove(folder / "model.safetensors");
}

class OpenDraftRegistry : public ::testing::Test {
 protected:
  DraftRegistry open(const std::string& draft) {
    return open_draft_registry(store_, folder_.path() / draft, target_, TopicTable({Topic{"sql", {}}}));
  }
  // As the learner did for a topic of that name.
  void publish_as_topic_base(const std::string& weights) { publish("base", weights); }
  void publish(const std::string& draft, const std::string& weights) {
    DraftMeta meta;
    meta.draft = meta.topic = draft;
    meta.reason = "canary";
    const auto staged = store_.staging_folder(draft);
    std::filesystem::copy(folder_.path() / weights, staged, std::filesystem::copy_options::recursive);
    store_.publish(staged, meta);
  }
  const testing::TemporaryFolder folder_;
  DraftStore store_{folder_.path() / "store"};
  DraftTarget target_{"target", kTarget, Dtype::kBFloat16, load_target(kTarget, Dtype::kBFloat16)};
};

TEST_F(OpenDraftRegistry, ADraftInShardsIsStoredAsOneFileOnce) {
  write_draft(folder_.path() / "whole", 1);
  write_draft(folder_.path() / "cut", 1);
  cut_in_two(folder_.path() / "cut");
  const DraftRegistry registry = open("cut");
  EXPECT_EQ(registry.base->number, 1U);
  ASSERT_EQ(registry.live_drafts.size(), 2U);
  const auto stored = store_.folder("base", 1);
  EXPECT_TRUE(std::filesystem::exists(stored / "model.safetensors"));
  EXPECT_TRUE(WeightFiles(stored).tensors() == WeightFiles(folder_.path() / "whole").tensors());
  EXPECT_EQ(open("cut").base->number, 1U) << "the same draft again";
  EXPECT_EQ(open("whole").base->number, 1U) << "the same weights in another number of files";
}

TEST_F(OpenDraftRegistry, AnotherDraftBecomesTheNextVersionOfTheBase) {
  write_draft(folder_.path() / "first", 1);
  write_draft(folder_.path() / "second", 2);
  open("first");
  const DraftRegistry registry = open("second");
  EXPECT_EQ(registry.base->number, 2U);
  EXPECT_EQ(registry.base->parent, 1U);
  EXPECT_EQ(registry.base->weights->config.n_layers, 2);
}

// A base draft of the same shape changed nothing for a topic that had learned, without a word; one of another shape
// gave a line for each version, which looked like damage.
TEST_F(OpenDraftRegistry, AnotherDraftIsLoggedWithWhatItMeansForTheTopics) {
  write_draft(folder_.path() / "first", 1);
  write_draft(folder_.path() / "deeper", 2);
  const auto said = [&](const std::string& draft) {
    ::testing::internal::CaptureStderr();
    open(draft);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("first"), "") << "the first base draft replaces none";
  EXPECT_EQ(said("first"), "") << "the same again";
  EXPECT_THAT(said("deeper"), ::testing::HasSubstr("deeper is its version 2 and replaces version 1; every topic begins "
                                                   "with it"));
  publish("sql", "deeper");
  publish("sql", "deeper");
  const std::string log = said("first");
  EXPECT_THAT(log, ::testing::HasSubstr("draft sql: these versions differ in shape from the base draft and are not "
                                        "used: 2, 1\n"));
  EXPECT_THAT(log, ::testing::HasSubstr("draft sql restarts from the base draft's weights; a start with a base draft "
                                        "of their shape uses these versions again\n"));
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("v000001")));
  const std::string back = said("deeper");
  EXPECT_THAT(back, ::testing::HasSubstr("version 4 and replaces version 3; topics that go on with a version of their "
                                         "own: sql; every other one begins with it"));
  EXPECT_EQ(store_.current("sql")->version, 2U);
}

// Without a draft, the service started on the data directory of another target.
TEST_F(OpenDraftRegistry, ADataDirectoryOfAnotherTargetIsRefusedWithoutADraftToo) {
  const auto other = folder_.path() / "other";
  std::filesystem::create_directories(other);
  std::ofstream(other / "config.json") << "{}";
  std::filesystem::copy_file(kTarget / "tokenizer.json", other / "tokenizer.json");
  EXPECT_NO_THROW(refuse_another_target(store_, other)) << "there are no drafts yet";
  write_draft(folder_.path() / "draft", 1);
  open("draft");
  EXPECT_NO_THROW(refuse_another_target(store_, kTarget));
  try {
    refuse_another_target(store_, other);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_EQ(error.message(), "the drafts in " + store_.root().string() +
                                   " were made for another target (target), not for " + other.string());
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("--data-dir"));
  }
  publish_as_topic_base("draft");
  EXPECT_NO_THROW(refuse_another_target(store_, kTarget)) << "a topic's version says nothing about the target";
}

// Regression: the start took the stored base draft by its weights alone. Nothing was said, and no topic could be
// trained.
TEST_F(OpenDraftRegistry, AStoredBaseWithADamagedConfigIsStoredAgain) {
  write_draft(folder_.path() / "draft", 1);
  open("draft");
  for (const std::uint64_t damaged : {1U, 2U}) {
    std::ofstream(store_.folder("base", damaged) / "config.json") << (damaged == 1 ? "{}" : "junk");
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(open("draft").base->number, damaged + 1);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("is stored again"));
    EXPECT_TRUE(
        load_model_config(store_.folder("base", damaged + 1)).same_shape(load_model_config(folder_.path() / "draft")));
  }
}

// The topic was served by the base draft, although its version before was whole.
TEST_F(OpenDraftRegistry, AVersionThatDoesNotLoadGivesWayToTheOneBefore) {
  write_draft(folder_.path() / "draft", 1);
  write_draft(folder_.path() / "deeper", 2);
  open("draft");
  publish("sql", "draft");
  publish("sql", "draft");
  publish("sql", "deeper");
  EXPECT_EQ(store_.current("sql")->version, 3U);
  std::ofstream(store_.folder("sql", 2) / "config.json") << "{}";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open("draft").live_drafts[1]->get()->number, 1U);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("draft sql: these versions differ in shape from the base draft and are not "
                                        "used: 3\n"));
  EXPECT_THAT(log, ::testing::HasSubstr("v000002 is not used"));
  EXPECT_EQ(store_.current("sql")->version, 1U);

  std::ofstream(store_.folder("sql", 1) / "config.json") << "junk";
  EXPECT_EQ(open("draft").live_drafts[1]->get()->number, 0U) << "the base draft's weights";
}

// A topic named "base" was accepted; what it published made every later start fail with "made for another target".
TEST_F(OpenDraftRegistry, ADirectoryThatATopicNamedBaseDamagedIsRepaired) {
  write_draft(folder_.path() / "draft", 1);
  write_draft(folder_.path() / "learned", 1);
  write_draft(folder_.path() / "next", 2);
  open("draft");
  publish_as_topic_base("learned");
  publish_as_topic_base("learned");
  ASSERT_EQ(store_.current("base")->version, 3U);
  ::testing::internal::CaptureStderr();
  const DraftRegistry registry = open("draft");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("versions 2, 3 belonged to a topic"));
  EXPECT_EQ(registry.base->number, 1U) << "the base draft is there still";
  EXPECT_EQ(store_.current("base")->version, 1U);
  EXPECT_FALSE(std::filesystem::exists(store_.folder("base", 3) / "model.safetensors"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open("draft").base->number, 1U);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "said once";
  EXPECT_EQ(open("next").base->number, 4U) << "no number is used again";
}

// The service did not start: it looked for a folder of the number that the version's meta.json had.
TEST_F(OpenDraftRegistry, AVersionOfAnotherNumberInTheBaseDraftsFolderIsNotUsed) {
  write_draft(folder_.path() / "draft", 1);
  open("draft");
  publish_as_topic_base("draft");
  std::filesystem::rename(store_.folder("base", 2), store_.folder("base", 7));
  DraftStore fresh(store_.root());
  EXPECT_EQ(fresh.versions("base").size(), 1U);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(open("draft").base->number, 1U);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("describes another version"));
}

// Retention had removed the base draft's own weights: the topic's were newer.
TEST_F(OpenDraftRegistry, ADirectoryWhereOnlyATopicNamedBaseHasWeightsImportsTheBaseDraftAgain) {
  write_draft(folder_.path() / "draft", 1);
  open("draft");
  publish_as_topic_base("draft");
  store_.discard("base", {1});
  ASSERT_EQ(store_.current("base")->version, 2U);
  const DraftRegistry registry = open("draft");
  EXPECT_EQ(registry.base->number, 3U);
  EXPECT_EQ(store_.current("base")->topic, "");
}

TEST_F(OpenDraftRegistry, WhatADeviceDraftsWithIsPackedOnce) {
  write_draft(folder_.path() / "draft", 1);
  EXPECT_EQ(open("draft").base->image, nullptr) << "the CPU needs none";
  target_.pack = draft_packing(std::make_shared<kernels::cuda::HostQueue>());
  const DraftRegistry registry = open("draft");
  ASSERT_NE(registry.base->image, nullptr);
  for (const auto& live_draft : registry.live_drafts) EXPECT_EQ(live_draft->get()->image, registry.base->image);
  DraftMeta meta;
  meta.draft = "sql";
  meta.parent = 1;
  write_draft(folder_.path() / "learned", 1);
  const auto staged = store_.staging_folder("sql");
  std::filesystem::copy(folder_.path() / "learned", staged, std::filesystem::copy_options::recursive);
  store_.publish(staged, meta);
  const DraftRegistry again = open("draft");
  EXPECT_EQ(again.live_drafts[1]->get()->number, 1U);
  EXPECT_NE(again.live_drafts[1]->get()->image, nullptr);
  EXPECT_NE(again.live_drafts[1]->get()->image, again.base->image);
}

// What such a draft's fingerprint is of, and what is stored beside its weights.
TEST(OpenDraftRegistryOfATokenizerModel, TakesItsWordsAlong) {
  const testing::TemporaryFolder folder;
  const auto both = folder.path() / "both",
             words = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers";
  std::filesystem::create_directories(both);
  std::filesystem::copy_file(words / "sentencepiece_bpe" / "tokenizer.model", both / "tokenizer.model");
  const auto tokenizer = Tokenizer::load(both);
  std::ofstream(both / "added_tokens.json") << json{{"<extra>", tokenizer->vocab_size()}};
  write_draft(both, 1, tokenizer->vocab_size() + 1);
  DraftStore store(folder.path() / "store");
  const DraftTarget target{"target", both, Dtype::kBFloat16, load_target(both, Dtype::kBFloat16)};
  open_draft_registry(store, both, target, TopicTable({Topic{"sql", {}}}));
  EXPECT_EQ(Tokenizer::load(store.folder("base", 1))->token_id("<extra>"), tokenizer->vocab_size());
}

}  // namespace
}  // namespace slip::cli
