// SPDX-License-Identifier: Apache-2.0
#include "distill/replay_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <fstream>
#include <set>

#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "distill/segment.h"
#include "tests/distill/sample_records.h"

namespace slip {
namespace {

using testing::make_record;
using testing::number_at;
using testing::ScratchFolder;

ReplayOptions options_in(const ScratchFolder& folder) {
  ReplayOptions options;
  options.folder = folder.path() / "replay";
  options.segment_bytes = 8192;
  return options;
}

std::set<std::uint64_t> ids_of(const std::vector<ReplayRecord>& records) {
  std::set<std::uint64_t> ids;
  for (const ReplayRecord& record : records) ids.insert(record.request.value);
  return ids;
}

std::set<std::uint64_t> ids_in(const ReplayBuffer& buffer, const std::string& topic = "sql") {
  return ids_of(buffer.newer_than(topic, 0, 1'000'000));
}

std::uint64_t bytes_on_disk(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) bytes += item.file_size();
  return bytes;
}

TEST(ReplayBuffer, KeepsRecordsAcrossARestart) {
  ScratchFolder folder;
  {
    ReplayBuffer buffer(options_in(folder));
    for (std::uint64_t id = 1; id <= 40; ++id) {
      EXPECT_EQ(buffer.append(make_record(id, id % 2 == 0 ? "sql" : "math")), id);
    }
    EXPECT_EQ(buffer.records("sql"), 20U);
  }
  ReplayBuffer buffer(options_in(folder));
  EXPECT_EQ(buffer.records("sql"), 20U);
  EXPECT_EQ(buffer.records("math"), 20U);
  EXPECT_EQ(buffer.last_sequence(), 40U);
  EXPECT_EQ(buffer.topics(), (std::vector<std::string>{"math", "sql"}));
  const auto newer = buffer.newer_than("sql", 30, 3);
  EXPECT_EQ(ids_of(newer), (std::set<std::uint64_t>{36, 38, 40}));
  EXPECT_EQ(newer.front().request.value, 36U);  // oldest first
  EXPECT_EQ(newer.front().tokens, make_record(36, "sql").tokens);
  EXPECT_GT(newer.front().expires_us, wall_us());
  EXPECT_EQ(buffer.append(make_record(41, "sql")), 41U);
}

TEST(ReplayBuffer, FilesAreForTheirOwnerOnly) {
  ScratchFolder folder;
  ReplayBuffer buffer(options_in(folder));
  buffer.append(make_record(1, "sql"));
  for (const auto& item : std::filesystem::directory_iterator(options_in(folder).folder)) {
    struct stat status {};
    ASSERT_EQ(::stat(item.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
}

TEST(ReplayBuffer, StaysWithinItsBudgetOnDiskToo) {
  ScratchFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 20'000;
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 600; ++id) {
    buffer.append(make_record(id, "sql"));
    ASSERT_LE(buffer.stats().bytes, options.max_bytes_per_topic);
  }
  EXPECT_GT(buffer.stats().bytes, 18'000U);
  // Twice the live bytes, since half may be dead, the segment that grows and the headers.
  EXPECT_LE(bytes_on_disk(options.folder), 2 * options.max_bytes_per_topic + 2 * options.segment_bytes);
  const auto kept = ids_in(buffer);
  EXPECT_EQ(kept.size(), buffer.records("sql"));
  EXPECT_GT(*kept.rbegin(), 500U);
}

TEST(ReplayBuffer, CompactionLosesNothingThatIsAlive) {
  ScratchFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 30'000;
  std::set<std::uint64_t> before;
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 400; ++id) buffer.append(make_record(id, "sql"));
    before = ids_in(buffer);
    EXPECT_EQ(buffer.stats().dropped, 0U);
  }
  ReplayBuffer buffer(options);
  EXPECT_EQ(ids_in(buffer), before);
}

TEST(ReplayBuffer, SampleNeverGivesHeldOutRecords) {
  ScratchFolder folder;
  ReplayBuffer buffer(options_in(folder));
  for (std::uint64_t id = 1; id <= 300; ++id) buffer.append(make_record(id, "sql"));
  const auto heldout = buffer.heldout("sql", 1000);
  EXPECT_NEAR(static_cast<double>(heldout.size()), 30, 16);  // 3 standard deviations
  for (const ReplayRecord& record : heldout) EXPECT_TRUE(buffer.is_heldout(record));
  const auto held_ids = ids_of(heldout);
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    for (const ReplayRecord& record : buffer.sample("sql", 16, 1, draw)) {
      ASSERT_FALSE(held_ids.contains(record.request.value));
    }
  }
  EXPECT_EQ(ids_of(buffer.sample("sql", 400, 1, 0, 100)).size() + ids_of(buffer.heldout("sql", 1000)).size(),
            100 + heldout.size() - std::count_if(held_ids.begin(), held_ids.end(), [](auto id) { return id <= 100; }));
  EXPECT_TRUE(buffer.sample("never heard of", 4, 1, 0).empty());
}

TEST(ReplayBuffer, NearCopiesOfASessionAreHeldOutTogether) {
  ScratchFolder folder;
  ReplayBuffer buffer(options_in(folder));
  for (std::uint64_t session = 0; session < 60; ++session) {
    std::set<bool> answers;
    for (std::uint64_t id = 0; id < 3; ++id) {
      ReplayRecord record = make_record(session * 3 + id, "sql");
      record.group = static_cast<std::uint64_t>(session);
      answers.insert(buffer.is_heldout(record));
    }
    EXPECT_EQ(answers.size(), 1U);
  }
}

// The tokens of a record as they stand in a segment.
bool on_disk(const std::filesystem::path& folder, const ReplayRecord& record) {
  std::string needle;
  for (const std::int32_t token : record.tokens) {
    for (int byte = 0; byte < 4; ++byte) needle += static_cast<char>(token >> (8 * byte));
  }
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (read_file(item.path(), 1 << 30).find(needle) != std::string::npos) return true;
  }
  return false;
}

TEST(ReplayBuffer, PurgedRequestsStayPurgedAndLeaveTheDisk) {
  ScratchFolder folder;
  const ReplayOptions options = options_in(folder);
  const ReplayRecord secret = make_record(7, "sql");
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 60; ++id) buffer.append(make_record(id, "sql"));
    ASSERT_TRUE(on_disk(options.folder, secret));
    EXPECT_EQ(buffer.purge({.calls = {RequestId{7}}}), 1U);
    EXPECT_EQ(buffer.purge({.calls = {RequestId{59}}}), 1U);  // in the segment that grows
    EXPECT_EQ(buffer.purge({.calls = {RequestId{7}}}), 0U);
    EXPECT_FALSE(on_disk(options.folder, secret));
    EXPECT_FALSE(on_disk(options.folder, make_record(59, "sql")));
    buffer.append(make_record(61, "sql"));
    EXPECT_EQ(buffer.records("sql"), 59U);
  }
  ReplayBuffer buffer(options);
  const auto ids = ids_in(buffer);
  EXPECT_EQ(ids.size(), 59U);
  EXPECT_FALSE(ids.contains(7));
  EXPECT_FALSE(ids.contains(59));
  EXPECT_TRUE(ids.contains(61));
}

ReplayRecord record_of(std::uint64_t id, std::uint64_t tenant, std::int64_t age_us) {
  ReplayRecord record = make_record(id, id % 2 == 0 ? "sql" : "math");
  record.tenant = TenantId{tenant};
  record.created_us = wall_us() - age_us;
  return record;
}

TEST(ReplayBuffer, APurgeOfATenantOrOfATimeReachesAllTheirsAndNothingElse) {
  constexpr std::int64_t kHourUs = std::int64_t{3600} * 1'000'000;
  ScratchFolder folder;
  const ReplayOptions options = options_in(folder);
  std::vector<ReplayRecord> records;
  for (std::uint64_t id = 1; id <= 60; ++id)
    records.push_back(record_of(id, id % 3, static_cast<std::int64_t>(61 - id) * kHourUs));
  {
    ReplayBuffer buffer(options);
    for (const ReplayRecord& record : records) buffer.append(record);
    EXPECT_EQ(buffer.purge({.tenant = TenantId{1}}), 20U);
    EXPECT_EQ(buffer.purge({.tenant = TenantId{1}}), 0U);
    EXPECT_EQ(buffer.purge({.before_us = wall_us() - 50 * kHourUs - kHourUs / 2}), 6U) << "of 10, 4 had gone before";
    EXPECT_EQ(buffer.purge({.calls = {RequestId{59}}, .tenant = TenantId{1}}), 0U) << "another tenant's";
    EXPECT_EQ(buffer.purge({.calls = {RequestId{59}, RequestId{60}, RequestId{77}}, .tenant = TenantId{2}}), 1U);
  }
  const auto is_kept = [](std::uint64_t id) { return id % 3 != 1 && id > 10 && id != 59; };
  for (const ReplayRecord& record : records) {
    EXPECT_EQ(on_disk(options.folder, record), is_kept(record.request.value)) << record.request.value;
  }
  ReplayBuffer buffer(options);
  auto ids = ids_in(buffer, "sql");
  ids.merge(ids_in(buffer, "math"));
  for (std::uint64_t id = 1; id <= 60; ++id) EXPECT_EQ(ids.contains(id), is_kept(id)) << id;
}

// What the reservoir evicted stays on the disk until its segment is compacted: a purge has to find it there.
TEST(ReplayBuffer, APurgeReachesRecordsThatWereEvicted) {
  ScratchFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 20'000;
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 60; ++id) buffer.append(make_record(id, "sql"));
  const auto kept = ids_in(buffer);
  std::size_t n_evicted_on_disk = 0;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    if (kept.contains(id) || !on_disk(options.folder, make_record(id, "sql"))) continue;
    ++n_evicted_on_disk;
    EXPECT_EQ(buffer.purge({.calls = {RequestId{id}}}), 1U) << id;
    EXPECT_FALSE(on_disk(options.folder, make_record(id, "sql"))) << id;
  }
  EXPECT_GT(n_evicted_on_disk, 0U) << "or this shows nothing";
  EXPECT_EQ(ids_in(buffer), kept);
}

// Bytes that a fault has made unreadable may be the request's.
TEST(ReplayBuffer, APurgeTakesDamagedBytesWithIt) {
  ScratchFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 60; ++id) buffer.append(make_record(id, "sql"));
  }
  const auto path = segment_path(options.folder, 1);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kSegmentHeaderBytes + 5);  // the CRC of the first record
    file.put('x');
  }
  ReplayBuffer buffer(options);
  ASSERT_FALSE(ids_in(buffer).contains(1));
  ASSERT_TRUE(on_disk(options.folder, make_record(1, "sql")));
  EXPECT_EQ(buffer.purge({.calls = {RequestId{1}}}), 0U) << "nobody knows whose they were";
  EXPECT_FALSE(on_disk(options.folder, make_record(1, "sql")));
  EXPECT_EQ(ids_in(buffer).size(), 59U);
}

// Request numbers start anew with each process: a purge must not reach records that came after it.
TEST(ReplayBuffer, APurgeOnlyReachesBack) {
  ScratchFolder folder;
  {
    ReplayBuffer buffer(options_in(folder));
    buffer.append(make_record(5, "sql"));
    buffer.purge({.calls = {RequestId{5}}});
    buffer.append(make_record(5, "sql"));
  }
  EXPECT_EQ(ReplayBuffer(options_in(folder)).records("sql"), 1U);
}

TEST(ReplayBuffer, ExpiredRecordsLeave) {
  ScratchFolder folder;
  ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 10; ++id) {
      ReplayRecord record = make_record(id, "sql");
      record.created_us = wall_us();
      record.expires_us = record.created_us + (id <= 4 ? 1'000'000 : 1'000'000'000);
      buffer.append(record);
    }
    EXPECT_EQ(buffer.expire(wall_us() + 2'000'000), 4U);
    EXPECT_EQ(buffer.records("sql"), 6U);
    EXPECT_EQ(buffer.expire(wall_us() - 1'000'000'000), 0U);  // a clock stepping back expires nothing
    ReplayRecord stale = make_record(11, "sql");
    stale.expires_us = 1;
    buffer.append(stale);
  }
  ReplayBuffer buffer(options);
  EXPECT_FALSE(ids_in(buffer).contains(11)) << "an expiry that passed while nobody ran";
}

// Recorded while the clock was a year ahead, they would outlive their promise by that year.
TEST(ReplayBuffer, WhatAWrongClockHasDatedExpiresInTime) {
  ScratchFolder folder;
  ReplayBuffer buffer(options_in(folder));
  const std::int64_t now = wall_us(), year = std::int64_t{365} * 24 * 3600 * 1'000'000;
  ReplayRecord record = make_record(1, "sql");
  record.created_us = now + year;
  buffer.append(record);
  EXPECT_EQ(buffer.expire(now), 0U);
  EXPECT_EQ(buffer.expire(now + options_in(folder).ttl_us - 1), 0U);
  EXPECT_EQ(buffer.expire(now + options_in(folder).ttl_us), 1U);
}

TEST(ReplayBuffer, ATornTailIsCutAndCounted) {
  ScratchFolder folder;
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

// Records that could not be read any more were gone without a word.
TEST(ReplayBuffer, WhatIsSkippedAtTheStartIsSaidInOneWarning) {
  ScratchFolder folder;
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
  std::fstream second(segments[1], std::ios::in | std::ios::out | std::ios::binary);
  second.seekp(200);
  second << "damage";
  second.close();
  const std::string said = warning_at_start();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, ::testing::HasSubstr(segments[0].filename().string() + " (" + std::to_string(first_bytes) +
                                         " bytes, records: at least 1)"));
  EXPECT_THAT(said, ::testing::HasSubstr(segments[1].filename().string()));
}

// Emptied, it was removed without a word.
TEST(ReplayBuffer, AnEmptySegmentBeforeOthersIsSaid) {
  ScratchFolder folder;
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

// Emptied, the newest one was taken for what a crash leaves, and its records were gone without a word.
TEST(ReplayBuffer, AnEmptiedNewestSegmentIsSaid) {
  for (const std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{10}}) {
    ScratchFolder folder;
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

// It was passed over without a word, and no purge reached it. The next number would not have been read again.
TEST(ReplayBuffer, ASegmentWithTooLargeANumberIsSaidAndLosesNoLaterRecord) {
  ScratchFolder folder;
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

// The empty file that a full disk left behind made every later attempt fail, so nothing was kept until a restart.
TEST(ReplayBuffer, ASegmentThatCouldNotBeMadeIsMadeOnceThereIsRoom) {
  for (const char* point : {"replay.segment.write:1:enospc", "replay.segment.fsync:1:enospc"}) {
    ScratchFolder folder;
    ReplayBuffer buffer(options_in(folder));
    arm_fail_point(point);
    EXPECT_THROW(buffer.append(make_record(1, "sql")), Error) << point;
    arm_fail_point("");
    EXPECT_EQ(bytes_on_disk(options_in(folder).folder), 0U);
    EXPECT_NO_THROW(buffer.append(make_record(2, "sql"))) << point;
    EXPECT_EQ(buffer.records("sql"), 1U) << point;
  }
}

// Its bytes may be the last of the disk.
TEST(ReplayBuffer, ACompactionThatFailsLeavesNoFileBehind) {
  ScratchFolder folder;
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
  ScratchFolder folder;
  const ReplayOptions options = options_in(folder);
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 3; ++id) buffer.append(make_record(id, "sql"));
  std::fstream file(options.folder / "segment-0000000001.replay", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(300);
  file.put('!');
  file.close();
  EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{2, 3}));
  EXPECT_EQ(buffer.records("sql"), 2U);
  EXPECT_EQ(buffer.stats().dropped, 1U);
}

// Everything on disk is hostile: damaged buffers open, give only records that were written, and take new ones.
TEST(ReplayBuffer, FuzzedFoldersOpenAndGoOn) {
  ScratchFolder folder;
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
    for (const ReplayRecord& record : buffer.newer_than("sql", 0, 1000)) {
      ASSERT_EQ(record.tokens, make_record(record.request.value, "sql").tokens);
    }
    const std::size_t before = buffer.records("sql");
    buffer.append(make_record(99, "sql"));
    ASSERT_EQ(buffer.records("sql"), before + 1);
  }
}

// An update keeps what was learned from before it; and what the older build wrote stays readable to that build, so
// nothing new is added to its files.
TEST(ReplayBuffer, SegmentsOfFormat1AreReadAndNotAddedTo) {
  ScratchFolder folder;
  const ReplayOptions options = options_in(folder);
  { ReplayBuffer{options}; }
  auto file = testing::segment_header_of_format(1, 1);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ReplayRecord record = make_record(id, "sql");
    record.sequence = id;
    record.expires_us = wall_us() + 1'000'000'000;
    const auto frame = testing::encode_as_format_1(record, id);
    file.insert(file.end(), frame.begin(), frame.end());
  }
  const auto old_path = segment_path(options.folder, 1);
  std::ofstream(old_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  {
    ReplayBuffer buffer(options);
    EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{1, 2, 3}));
    buffer.append(make_record(4, "sql"));
    EXPECT_EQ(std::filesystem::file_size(old_path), file.size());
    EXPECT_TRUE(std::filesystem::exists(segment_path(options.folder, 2)));
  }
  ReplayBuffer buffer(options);
  EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(buffer.purge({.calls = {RequestId{2}}}), 1U);  // rewrites the old segment
  buffer.append(make_record(5, "sql"));
  EXPECT_EQ(ids_in(buffer), (std::set<std::uint64_t>{1, 3, 4, 5}));
}

TEST(ReplayBuffer, SymlinksAndStrangersInTheFolderAreNotFollowed) {
  ScratchFolder folder;
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

TEST(ReplayBuffer, ARecordOverTheBudgetIsDroppedAndCounted) {
  ScratchFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 600;
  ReplayBuffer buffer(options);
  EXPECT_EQ(buffer.append(make_record(1, "sql", 5, 200)), 1U);
  EXPECT_EQ(buffer.records("sql"), 0U);
  EXPECT_EQ(buffer.stats().dropped, 1U);
}

}  // namespace
}  // namespace slip
