// SPDX-License-Identifier: Apache-2.0
// The exit status of the built `slipstream inspect`; inspection_test.cpp has what it finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoints/draft_store.h"
#include "common/file.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class InspectCommand : public ::testing::Test {
 protected:
  int inspect(const fs::path& what) {
    const std::string said = (folder_.path() / "said").string();
    const int status = std::system(
        (std::string(SLIPSTREAM_BINARY_DIR) + "/slipstream inspect " + what.string() + " >" + said + " 2>&1").c_str());
    said_ = read_file(said, /*max_bytes=*/1 << 20);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void publish(const fs::path& drafts) {
    DraftStore store(drafts);
    const auto staged = store.staging_folder("sql");
    testing::TinyLlama().write(staged);
    DraftMeta meta;
    meta.draft = meta.topic = "sql";
    store.publish(staged, meta);
  }

  const testing::TemporaryFolder folder_;
  std::string said_;
};

// Bug: a dangling CURRENT and a damaged segment were told, if at all, with status 0.
TEST_F(InspectCommand, DamageIsNamedAndGivesStatusOne) {
  const fs::path drafts = folder_.path() / "drafts", replay = folder_.path() / "replay";
  publish(drafts);
  EXPECT_EQ(inspect(drafts), 0) << said_;
  fs::rename(drafts / "sql/v000001", folder_.path() / "away");
  EXPECT_EQ(inspect(drafts), 1) << said_;
  EXPECT_THAT(said_, HasSubstr((drafts / "sql/CURRENT").string()));
  fs::create_directories(replay);
  std::ofstream(replay / "segment-0000000001.replay") << "no segment of ours";
  EXPECT_EQ(inspect(replay), 1) << said_;
  EXPECT_THAT(said_, HasSubstr((replay / "segment-0000000001.replay").string()));
}

TEST_F(InspectCommand, WhatIsNotThereGivesAnotherStatus) {
  EXPECT_EQ(inspect(folder_.path() / "nowhere"), 2) << said_;
  EXPECT_THAT(said_, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace slip::cli
