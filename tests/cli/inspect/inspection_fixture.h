// SPDX-License-Identifier: Apache-2.0
// A folder with the files of a service, and what `inspect` says of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "cli/inspect/inspection.h"
#include "common/error.h"
#include "distill/replay/replay_buffer.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/distill/sample_records.h"

namespace slip::cli {

class InspectionTest : public ::testing::Test {
 protected:
  nlohmann::json look(const std::filesystem::path& path) const { return nlohmann::json::parse(to_json(inspect(path))); }
  std::vector<std::string> faults_of(const std::filesystem::path& path) const { return inspect(path).faults; }
  ErrorCode refused(const std::filesystem::path& path) const {
    try {
      inspect(path);
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr(path.filename().string())) << "the message names the path";
      return error.code();
    }
    ADD_FAILURE() << "accepted " << path;
    return ErrorCode::kInternal;
  }
  void publish_two(const std::filesystem::path& root) const {
    DraftStore store(root);
    for (const char* reason : {"base", "canary"}) {
      const auto staged = store.staging_folder("sql");
      slip::testing::TinyLlama().write(staged);
      DraftMeta meta;
      meta.draft = meta.topic = "sql";
      meta.reason = reason;
      meta.heldout_alpha = std::string(reason) == "canary" ? 0.5 : 0;
      store.publish(staged, meta);
    }
  }
  void record_replay(const std::filesystem::path& folder) const {
    ReplayOptions options;
    options.folder = folder;
    ReplayBuffer buffer(options);
    for (std::uint64_t i = 1; i <= 12; ++i) buffer.append(slip::testing::make_record(i, i % 3 == 0 ? "math" : "sql"));
  }

  slip::testing::TemporaryFolder folder_;
};

}  // namespace slip::cli
