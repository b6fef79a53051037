// SPDX-License-Identifier: Apache-2.0
// Damaged, emptied and foreign files in a buffer's folder, and writes that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "distill/replay/segment.h"
#include "tests/common/damage.h"
#include "tests/distill/replay/replay_fixture.h"

namespace slip {
namespace {

using testing::all_records;
using testing::bytes_on_disk;
using testing::ids_in;
using testing::make_record;
using testing::number_at;
using testing::options_in;
using testing::TemporaryFolder;

TEST(ReplayBuffer, ATornTailIsCutAndCounted) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  { ReplayBuffer(options).append(make_record(1, "sql")); }
  const auto path = options.folder / "segment-0000000001.replay";
  const auto whole = std::filesystem::file_size(path);
  std::ofstream(path, std::ios::app | std::ios::binary) << "SREC half of a frame";
  {
    ReplayBuffer buffer(options);
    EXPECT_EQ(buffer.stats().torn_bytes, 20U);
    EXPECT_EQ(std::filesystem::file_size(path), whole);
    buffer.append(make_record(2, "sql"));
  }
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{1, 2}));
}

// Regression: unreadable records were dropped silently.
TEST(ReplayBuffer, WhatIsSkippedAtTheStartIsLoggedInOneWarning) {
  TemporaryFolder folder;
  ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 30; ++id) buffer.append(make_record(id, "sql"));
  }
  std::vector<std::filesystem::path> segments;
  for (const auto& item : std::filesystem::directory_iterator(options.folder)) segments.push_back(item.path());
  std::sort(segments.begin(), segments.end());
  ASSERT_GE(segments.size(), 2U);
  const auto warning_at_start = [&] {
    ::testing::internal::CaptureStderr();
    { ReplayBuffer{options}; }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning_at_start(), "");
  // All of the first one, and one record of the second.
  const auto first_bytes = std::filesystem::file_size(segments[0]);
  std::ofstream(segments[0], std::ios::binary) << std::string(first_bytes, '\0');
  testing::overwrite(segments[1], 200, "damage");
  const std::string said = warning_at_start();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, ::testing::HasSubstr(segments[0].filename().string() + " (" + std::to_string(first_bytes) +
                                         " bytes, records: at least 1)"));
  EXPECT_THAT(said, ::testing::HasSubstr(segments[1].filename().string()));
}

// Regression: an emptied segment was removed silently.
TEST(ReplayBuffer, AnEmptySegmentBeforeOthersIsLogged) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 30; ++id) buffer.append(make_record(id, "sql"));
  }
  ASSERT_TRUE(std::filesystem::exists(options.folder / "segment-0000000002.replay"));
  std::filesystem::resize_file(options.folder / "segment-0000000001.replay", 0);
  ::testing::internal::CaptureStderr();
  { ReplayBuffer{options}; }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("segment-0000000001.replay (0 bytes, records: at least 1)"));
}

// Regression: the newest segment, when emptied, was mistaken for the result of a crash, and its records were lost
// silently.
TEST(ReplayBuffer, AnEmptiedNewestSegmentIsLogged) {
  for (const std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{10}}) {
    TemporaryFolder folder;
    const ReplayOptions options = options_in(folder);
    { ReplayBuffer(options).append(make_record(1, "sql")); }
    std::filesystem::resize_file(options.folder / "segment-0000000001.replay", bytes);
    ::testing::internal::CaptureStderr();
    ReplayBuffer buffer(options);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                ::testing::HasSubstr("segment-0000000001.replay (" + std::to_string(bytes) + " bytes, records"));
    EXPECT_EQ(buffer.stats().dropped, 1U);
    EXPECT_NO_THROW(buffer.append(make_record(2, "sql")));
  }
}

// Regression: such a segment was skipped silently and no purge reached it. A segment created after it would not have
// been loaded again.
TEST(ReplayBuffer, ASegmentWithTooLargeANumberIsLoggedAndLosesNoLaterRecord) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  { ReplayBuffer(options).append(make_record(1, "sql")); }
  const auto first = options.folder / "segment-0000000001.replay";
  const auto largest = options.folder / "segment-18446744073709551615.replay";
  std::filesystem::rename(first, largest);
  ::testing::internal::CaptureStderr();
  {
    ReplayBuffer buffer(options);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("18446744073709551615.replay (its"));
    buffer.append(make_record(2, "sql"));
    EXPECT_THROW(buffer.purge({{RequestId{1}}, std::nullopt, std::nullopt}), Error) << "its bytes stay";
  }
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{2}));
  std::filesystem::remove(largest);
  std::filesystem::rename(first, segment_path(options.folder, kMaxSegmentNumber));
  ReplayBuffer last(options);
  EXPECT_THROW(for (std::uint64_t id = 3; id <= 300; ++id) last.append(make_record(id, "sql")), Error)
      << "what would not be read again is refused";
}

// Regression: a purge ended well beside a copy that held what it had removed.
TEST(ReplayBuffer, APurgeNamesCopiesOfSegmentsInItsFolder) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 3; ++id) buffer.append(make_record(id, "sql"));
  EXPECT_EQ(buffer.purge({.calls = {RequestId{1}}}), 1U) << "nothing else lies there";
  for (const std::string name : {"segment-0000000001.replay.bak", "copy of a segment", "segment-0000000099.replay"}) {
    std::filesystem::copy(segment_path(options.folder, 1), options.folder / name);
    try {
      buffer.purge({.calls = {RequestId{2}}});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_THAT(error.message(), ::testing::HasSubstr("what " + (options.folder / name).string() + " holds"));
    }
    std::filesystem::remove(options.folder / name);
  }
  EXPECT_EQ(buffer.purge({.calls = {RequestId{3}}}), 1U);
}

// Regression: a full disk left an empty file that made every later attempt fail, so no records were kept until a
// restart.
TEST(ReplayBuffer, ASegmentThatCouldNotBeMadeIsMadeOnceThereIsRoom) {
  for (const char* point : {"replay.segment.write:1:enospc", "replay.segment.fsync:1:enospc"}) {
    TemporaryFolder folder;
    ReplayBuffer buffer(options_in(folder));
    arm_fail_point(point);
    EXPECT_THROW(buffer.append(make_record(1, "sql")), Error) << point;
    arm_fail_point("");
    EXPECT_EQ(bytes_on_disk(options_in(folder).folder), 0U);
    EXPECT_NO_THROW(buffer.append(make_record(2, "sql"))) << point;
    EXPECT_EQ(buffer.records("sql"), 1U) << point;
  }
}

// Bug: the first of two purges that a full disk had interrupted moved the tombstone of the second, and no later start
// got past it: the program ended by a failed check.
TEST(ReplayBuffer, SeveralInterruptedPurgesAreCompletedAtTheNextStart) {
  TemporaryFolder folder;
  ReplayOptions options = options_in(folder);
  options.segment_bytes = 1 << 20;  // all in one
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 30; ++id) buffer.append(make_record(id, "sql"));
    for (const std::uint64_t id : {30, 3, 29, 28}) {
      arm_fail_point("replay.compact.fsync:1:enospc");
      EXPECT_THROW(buffer.purge({.calls = {RequestId{id}}}), Error);
    }
    arm_fail_point("");
  }
  const auto left = ids_in(ReplayBuffer(options));
  EXPECT_EQ(left.size(), 26U);
  for (const std::uint64_t id : {3, 28, 29, 30}) EXPECT_FALSE(left.contains(id)) << id;
  EXPECT_EQ(ids_in(ReplayBuffer(options)), left);
}

// A leftover temporary file may use the last bytes of the disk.
TEST(ReplayBuffer, ACompactionThatFailsLeavesNoFileBehind) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 30; ++id) buffer.append(make_record(id, "sql"));
  arm_fail_point("replay.compact.fsync:1:enospc");
  EXPECT_THROW(buffer.purge({{RequestId{1}}, std::nullopt, std::nullopt}), Error);
  arm_fail_point("");
  for (const auto& item : std::filesystem::directory_iterator(options.folder)) {
    EXPECT_NE(item.path().extension(), ".tmp") << item.path();
  }
}

TEST(ReplayBuffer, ARecordThatRotsWhileRunningIsDroppedNotReturned) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 3; ++id) buffer.append(make_record(id, "sql"));
  testing::invert_byte(options.folder / "segment-0000000001.replay", 300);
  EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{2, 3}));
  EXPECT_EQ(buffer.records("sql"), 2U);
  EXPECT_EQ(buffer.stats().dropped, 1U);
}

// All files are untrusted: a damaged buffer opens, returns only records that were written, and accepts new ones.
// Regression: the open file took all later records, and no start would have found them.
TEST(ReplayBuffer, ASegmentThatIsDeletedWhileRunningCostsItsRecordsAndIsReported) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  const auto lose = [&](const std::function<void(const std::filesystem::path&)>& remove) {
    std::filesystem::remove_all(options.folder);
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 3; ++id) buffer.append(make_record(id, "sql"));
    const auto path = options.folder / "segment-0000000001.replay";
    remove(path);
    try {
      buffer.append(make_record(4, "sql"));
      ADD_FAILURE() << "kept in a file that is gone";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.message(), ::testing::HasSubstr(path.string()));
      EXPECT_THAT(error.message(), ::testing::HasSubstr("3 records"));
    }
    EXPECT_EQ(buffer.records("sql"), 0U);
    EXPECT_EQ(buffer.stats().dropped, 3U);
    buffer.append(make_record(5, "sql"));
    buffer.sync();
    EXPECT_EQ(ids_in(buffer), std::set<std::uint64_t>{5});
    EXPECT_EQ(ids_in(ReplayBuffer(options)), std::set<std::uint64_t>{5});
  };
  lose([](const auto& path) { std::filesystem::remove(path); });
  lose([](const auto& path) { std::filesystem::rename(path, path.parent_path() / "moved"); });
  lose([](const auto& path) {
    std::filesystem::remove(path);
    std::ofstream(path) << "";
  });
}

TEST(ReplayBuffer, AFolderThatIsMovedAndComesBackLosesNothing) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  const auto elsewhere = folder.path() / "elsewhere";
  ReplayBuffer buffer(options);
  buffer.append(make_record(1, "sql"));
  std::filesystem::rename(options.folder, elsewhere);
  buffer.append(make_record(2, "sql"));
  EXPECT_THROW(ids_in(buffer), Error) << "they may come back";
  std::filesystem::rename(elsewhere, options.folder);
  buffer.append(make_record(3, "sql"));
  EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{1, 2, 3}));
}

// Regression: a FIFO in a segment's place was opened, which never ended, and with it learning, purges and the stop.
TEST(ReplayBuffer, AFullSegmentThatIsChangedWhileRunningCostsItsRecordsAndIsLogged) {
  using Path = std::filesystem::path;
  const std::vector<std::function<void(const Path&)>> changes = {
      [](const Path& path) { std::filesystem::remove(path); },
      [](const Path& path) { std::filesystem::resize_file(path, 0); },
      [](const Path& path) {
        std::filesystem::remove(path);
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      },
      [](const Path& path) {
        std::filesystem::remove(path);
        std::filesystem::create_symlink("/dev/zero", path);
      }};
  for (const auto& change : changes) {
    TemporaryFolder folder;
    const Path first = options_in(folder).folder / "segment-0000000001.replay";
    const Path second = options_in(folder).folder / "segment-0000000002.replay";
    ReplayBuffer buffer(options_in(folder));
    std::uint64_t id = 0;
    while (!std::filesystem::exists(second)) buffer.append(make_record(++id, "sql"));
    change(first);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(ids_in(buffer), std::set<std::uint64_t>{id});
    EXPECT_EQ(ids_in(buffer), std::set<std::uint64_t>{id}) << "the others are known to be gone";
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_THAT(said, ::testing::HasSubstr(first.string() + " was changed"));
    EXPECT_EQ(buffer.stats().dropped, id - 1);
  }
}

TEST(ReplayBuffer, ASegmentThatIsCutWhileItGrowsCostsNoLaterRecord) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 2; ++id) buffer.append(make_record(id, "sql"));
    const auto path = options.folder / "segment-0000000001.replay";
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
    ::testing::internal::CaptureStderr();
    for (std::uint64_t id = 3; id <= 4; ++id) buffer.append(make_record(id, "sql"));
    EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{1, 3, 4}));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr(path.string() + " was changed"));
    EXPECT_EQ(buffer.purge({.calls = {RequestId{1}}}), 1U);
  }
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{3, 4}));
}

TEST(ReplayBuffer, FuzzedFoldersOpenAndGoOn) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 30; ++id) buffer.append(make_record(id, "sql"));
  }
  const auto pristine = folder.path() / "pristine";
  std::filesystem::copy(options.folder, pristine);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::filesystem::remove_all(options.folder);
    std::filesystem::copy(pristine, options.folder);
    std::filesystem::permissions(options.folder, std::filesystem::perms::owner_all);
    for (const auto& item : std::filesystem::directory_iterator(options.folder)) {
      std::string content = read_file(item.path(), 1 << 30);
      for (std::uint32_t i = 0; i < 6; ++i) {
        content[static_cast<std::size_t>(number_at(seed, 2 * i, static_cast<std::int32_t>(content.size())))] =
            static_cast<char>(number_at(seed, 2 * i + 1, 256));
      }
      if (number_at(seed, 50, 3) == 0) {
        content.resize(static_cast<std::size_t>(number_at(seed, 51, static_cast<std::int32_t>(content.size()))));
      }
      std::ofstream(item.path(), std::ios::binary | std::ios::trunc) << content;
    }
    ReplayBuffer buffer(options);
    for (const ReplayRecord& record : all_records(buffer, "sql")) {
      ASSERT_EQ(record.tokens, make_record(record.request.value, "sql").tokens);
    }
    const std::size_t before = buffer.records("sql");
    buffer.append(make_record(99, "sql"));
    ASSERT_EQ(buffer.records("sql"), before + 1);
  }
}

// Regression: a service did not start.
TEST(ReplayBuffer, AFolderThatIsNamedLikeALeftoverStaysAndIsNoObstacle) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  { ReplayBuffer(options).append(make_record(1, "sql")); }
  std::filesystem::create_directories(options.folder / "notes.tmp" / "mine");
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{1}));
  EXPECT_TRUE(std::filesystem::exists(options.folder / "notes.tmp" / "mine"));
}

TEST(ReplayBuffer, SymlinksAndOtherFilesInTheFolderAreNotFollowed) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  { ReplayBuffer(options).append(make_record(1, "sql")); }
  std::ofstream(folder.path() / "outside") << "not ours";
  std::filesystem::create_symlink(folder.path() / "outside", options.folder / "segment-0000000002.replay");
  std::ofstream(options.folder / "notes.txt") << "hello";
  ReplayBuffer buffer(options);
  buffer.append(make_record(2, "sql"));
  EXPECT_EQ(buffer.records("sql"), 2U);
  EXPECT_EQ(read_file(folder.path() / "outside", 100), "not ours");
}

}  // namespace
}  // namespace slip
