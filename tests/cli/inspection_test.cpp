// SPDX-License-Identifier: Apache-2.0
#include "cli/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/draft_store.h"
#include "common/clock.h"
#include "common/error.h"
#include "distill/replay_buffer.h"
#include "ledger/ledger.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/distill/sample_records.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kDemo = fs::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo";

class InspectionTest : public ::testing::Test {
 protected:
  json look(const fs::path& path) const { return json::parse(to_json(inspect(path))); }
  ErrorCode refused(const fs::path& path) const {
    try {
      inspect(path);
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(path.filename().string())) << "the message names the path";
      return error.code();
    }
    ADD_FAILURE() << "accepted " << path;
    return ErrorCode::kInternal;
  }
  void publish_two(const fs::path& root) const {
    DraftStore store(root);
    for (const char* reason : {"base", "canary"}) {
      const auto staged = store.staging_folder("sql");
      testing::TinyLlama().write(staged);
      DraftMeta meta;
      meta.draft = meta.topic = "sql";
      meta.reason = reason;
      store.publish(staged, meta);
    }
  }
  void record_replay(const fs::path& folder) const {
    ReplayOptions options;
    options.folder = folder;
    ReplayBuffer buffer(options);
    for (std::uint64_t i = 1; i <= 12; ++i) buffer.append(testing::make_record(i, i % 3 == 0 ? "math" : "sql"));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(InspectionTest, ACheckpointAndADraftSayWhatTheyAre) {
  const json target = look(kDemo / "target");
  EXPECT_EQ(target["kind"], "checkpoint");
  EXPECT_EQ(target["facts"]["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(target["facts"]["vocabulary"], 8192);
  EXPECT_EQ(target["facts"]["tokenizer"], "ok");
  EXPECT_TRUE(target["faults"].empty()) << target["faults"];
  const json draft = look(kDemo / "draft");
  EXPECT_EQ(draft["kind"], "draft");
  EXPECT_EQ(draft["facts"]["weights_checksum"], "ok") << draft;
  const std::string text = to_text(inspect(kDemo / "draft"));
  EXPECT_THAT(text, HasSubstr("vocabulary"));
  EXPECT_THAT(text, HasSubstr("8192"));
}

TEST_F(InspectionTest, WeightsBySelfListTheirTensors) {
  testing::TinyLlama().write(folder_.path() / "tiny");
  const json found = look(folder_.path() / "tiny/model.safetensors");
  EXPECT_EQ(found["kind"], "safetensors");
  EXPECT_EQ(found["tensors"].size(), testing::TinyLlama().tensors.size());
  EXPECT_EQ(found["tensors"][0]["dtype"], "float32");
}

TEST_F(InspectionTest, TheStoreSaysWhatIsCurrentAndWhatIsDamaged) {
  const fs::path root = folder_.path() / "drafts";
  publish_two(root);
  json found = look(root);
  ASSERT_EQ(found["versions"].size(), 2U);
  EXPECT_EQ(found["versions"][0]["state"], "");
  EXPECT_EQ(found["versions"][1]["state"], "current");
  EXPECT_EQ(found["versions"][1]["weights"], "ok");
  EXPECT_TRUE(found["faults"].empty());
  std::fstream weights(root / "sql/v000002/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-3, std::ios::end);
  weights << "xyz";
  weights.close();
  fs::remove(root / "sql/v000001/meta.json");
  found = look(root);
  EXPECT_EQ(found["versions"][0]["weights"], "damaged");
  EXPECT_EQ(found["faults"].size(), 2U) << found["faults"];
}

TEST_F(InspectionTest, ReplayIsCountedByTopicAndLeftAsItIs) {
  const fs::path replay = folder_.path() / "replay";
  record_replay(replay);
  json found = look(replay);
  EXPECT_EQ(found["facts"]["records"], 12);
  EXPECT_EQ(found["topics"][0]["topic"], "math");
  EXPECT_EQ(found["topics"][0]["records"], 4);
  const fs::path segment = replay / "segment-0000000001.replay";
  const auto bytes = fs::file_size(segment);
  fs::resize_file(segment, bytes - 7);
  found = look(segment);
  EXPECT_EQ(found["facts"]["records"], 11);
  EXPECT_EQ(found["segments"][0]["state"], "torn tail");
  EXPECT_TRUE(found["faults"].empty()) << "a crash leaves that; the next start cuts it";
  EXPECT_EQ(fs::file_size(segment), bytes - 7) << "only read";
  std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file << "damage";
  file.close();
  EXPECT_EQ(look(segment)["segments"][0]["state"], "damaged");
}

TEST_F(InspectionTest, ALedgerCountsItsRowsWhileItIsWritten) {
  const fs::path data = folder_.path() / "data";
  fs::create_directory(data);
  LedgerOptions options;
  options.file = data / "ledger.db";
  Ledger ledger(options);
  RequestRow row;
  row.topic = row.draft = "sql\x1b[2J";
  row.finished_us = wall_us();
  row.accepted = 6;
  row.first_rejections = 4;
  row.steps = 5;
  row.output_tokens = 11;
  ledger.record(row);
  ledger.flush();
  const json found = look(options.file);
  EXPECT_EQ(found["facts"]["rows_of_requests"], 1);
  EXPECT_EQ(found["facts"]["integrity"], "ok");
  EXPECT_NEAR(found["topics"][0]["alpha"].get<double>(), 0.6, 1e-9);
  EXPECT_THAT(to_text(inspect(options.file)), Not(HasSubstr("\x1b")));
  publish_two(data / "drafts");
  record_replay(data / "replay");
  const json all = look(data);
  EXPECT_EQ(all["kind"], "data directory");
  EXPECT_EQ(all["facts"]["ledger_rows_of_requests"], 1);
  EXPECT_EQ(all["facts"]["drafts_versions"], 2);
  EXPECT_EQ(all["facts"]["replay_records"], 12);
  EXPECT_EQ(all["facts"]["in_use_by"], "free");
  EXPECT_EQ(all["ledger_topics"].size(), 1U);
  EXPECT_EQ(all["replay_topics"].size(), 2U);
}

TEST_F(InspectionTest, WhatIsNothingOfOursOrHostileIsRefusedByName) {
  EXPECT_EQ(refused(folder_.path() / "none"), ErrorCode::kNotFound);
  EXPECT_EQ(refused(folder_.write("notes.txt", "hello")), ErrorCode::kInvalidArgument);
  fs::create_directory(folder_.path() / "empty");
  EXPECT_EQ(refused(folder_.path() / "empty"), ErrorCode::kInvalidArgument);
  ::mkfifo((folder_.path() / "pipe").c_str(), 0600);
  EXPECT_EQ(refused(folder_.path() / "pipe"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(folder_.write("short.safetensors", "abc")), ErrorCode::kDataLoss);
  EXPECT_EQ(refused(folder_.write("huge.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10))),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(folder_.write("ledger.db", "SQLite format 3" + std::string(2000, '\0'))), ErrorCode::kDataLoss);
  fs::remove(folder_.path() / "ledger.db");
  const fs::path model = folder_.path() / "model";
  fs::create_directory(model);
  std::ofstream(model / "config.json") << std::string(100'000, '[');
  try {
    inspect(model);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("config.json"));
  }
  json replay = look(folder_.write("segment-0000000001.replay", std::string(5000, 'R')));
  EXPECT_EQ(replay["facts"]["records"], 0);
}

TEST_F(InspectionTest, AModelWithoutItsWeightsHasFaults) {
  testing::TinyLlama().write(folder_.path() / "tiny");
  fs::resize_file(folder_.path() / "tiny/model.safetensors", 100);
  const Inspection found = inspect(folder_.path() / "tiny");
  EXPECT_EQ(found.faults.size(), 2U) << "torn weights, no tokenizer";
  EXPECT_THAT(to_text(found), HasSubstr("FAULT: "));
}

}  // namespace
}  // namespace slip::cli
