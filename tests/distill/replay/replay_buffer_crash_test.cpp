// SPDX-License-Identifier: Apache-2.0
// A child process dies at a fail point, and the parent opens the files that it left.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>

#include "common/error.h"
#include "distill/replay/replay_buffer.h"
#include "tests/distill/replay/replay_fixture.h"

namespace slip {
namespace {

using testing::all_records;
using testing::ids_in;
using testing::make_record;
using testing::TemporaryFolder;

// "threadsafe" death tests start the program anew, so that the child reads SLIPSTREAM_FAIL_POINT for itself; the folder
// reaches it through the environment too.
class CrashFolder {
 public:
  CrashFolder() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::setenv(kVariable, own_.path().c_str(), /*overwrite=*/0);
  }
  ~CrashFolder() { ::unsetenv(kVariable); }
  ReplayOptions options() const {
    ReplayOptions options;
    options.folder = std::filesystem::path(std::getenv(kVariable)) / "replay";
    options.segment_bytes = 4096;
    options.max_bytes_per_topic = 20'000;
    return options;
  }

 private:
  static constexpr const char* kVariable = "SLIPSTREAM_TEST_CRASH_FOLDER";
  TemporaryFolder own_;
};

void arm(const std::string& trigger) {
  ::setenv("SLIPSTREAM_FAIL_POINT", trigger.c_str(), 1);
}

void fill(const ReplayOptions& options) {
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 160; ++id) {
    buffer.append(make_record(id, "sql"));
    if (id % 20 == 0) buffer.sync();
    if (id % 50 == 0) buffer.purge({.calls = {RequestId{id - 20}}});
  }
}

class ReplayCrashDeathTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(ReplayCrashDeathTest, WhatIsLeftOpens) {
  const auto [point, hit] = GetParam();
  const CrashFolder folder;
  const std::string trigger = std::string(point) + ":" + std::to_string(hit) + ":kill";
  EXPECT_EXIT((arm(trigger), fill(folder.options())), ::testing::KilledBySignal(SIGKILL), "");
  ReplayBuffer buffer(folder.options());
  EXPECT_EQ(buffer.stats().dropped, 0U);
  EXPECT_LE(buffer.stats().bytes, folder.options().max_bytes_per_topic);
  for (const auto& item : std::filesystem::directory_iterator(folder.options().folder)) {
    EXPECT_NE(item.path().extension(), ".tmp");
  }
  const std::uint64_t before = buffer.last_sequence();
  EXPECT_EQ(buffer.append(make_record(1000, "sql")), before + 1);
  for (const ReplayRecord& record : all_records(buffer, "sql")) {
    EXPECT_EQ(record.tokens, make_record(record.request.value, "sql").tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(
    FailPoints, ReplayCrashDeathTest,
    ::testing::Combine(::testing::Values("replay.append.write", "replay.sync.fsync", "replay.segment.write",
                                         "replay.segment.fsync", "replay.segment.rename", "replay.compact.write",
                                         "replay.compact.fsync", "replay.compact.rename", "replay.compact.remove"),
                       ::testing::Values(1, 3)));

TEST(ReplayCrashDeathTest, AFullDiskCostsOneRecordAndNotTheBuffer) {
  const CrashFolder folder;
  const auto append_five = [&] {
    ReplayBuffer buffer(folder.options());
    int refused = 0;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      try {
        buffer.append(make_record(id, "sql"));
      } catch (const Error& error) {
        refused += error.code() == ErrorCode::kIo ? 1 : 0;
      }
    }
    buffer.sync();
    ::_exit(refused == 1 && buffer.records("sql") == 4 ? 0 : 1);
  };
  EXPECT_EXIT((arm("replay.append.write:3:enospc"), append_five()), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(ids_in(ReplayBuffer(folder.options())), (std::set<std::uint64_t>{1, 2, 4, 5}));
}

// The crash between a purge's tombstone and the rewriting of what it purges.
TEST(ReplayCrashDeathTest, AnInterruptedPurgeOfATenantIsFinishedAtTheNextStart) {
  const CrashFolder folder;
  const auto purge_one = [&] {
    ReplayBuffer buffer(folder.options());
    for (std::uint64_t id = 1; id <= 20; ++id) {
      ReplayRecord record = make_record(id, "sql");
      record.tenant = TenantId{id % 2};
      buffer.append(record);
    }
    buffer.purge({.tenant = TenantId{1}});
  };
  EXPECT_EXIT((arm("replay.compact.write:1:kill"), purge_one()), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(ReplayBuffer(folder.options()).records("sql"), 10U);
  EXPECT_FALSE(ids_in(ReplayBuffer(folder.options())).contains(3));
}

TEST(ReplayCrashDeathTest, AnInterruptedPurgeIsFinishedAtTheNextStart) {
  const CrashFolder folder;
  const auto purge_one = [&] {
    ReplayBuffer buffer(folder.options());
    for (std::uint64_t id = 1; id <= 20; ++id) buffer.append(make_record(id, "sql"));
    buffer.purge({.calls = {RequestId{3}}});
  };
  EXPECT_EXIT((arm("replay.compact.write:1:kill"), purge_one()), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(ids_in(ReplayBuffer(folder.options())).contains(3));
  ReplayBuffer again(folder.options());
  EXPECT_FALSE(ids_in(again).contains(3));
  EXPECT_EQ(again.records("sql"), 19U);
}

}  // namespace
}  // namespace slip
