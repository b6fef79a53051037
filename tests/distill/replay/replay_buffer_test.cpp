// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/replay_buffer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <vector>

#include "common/clock.h"
#include "distill/replay/near_copies.h"
#include "distill/replay/segment.h"
#include "tests/distill/replay/replay_fixture.h"
#include "tests/failing_allocations.h"

namespace slip {
namespace {

using testing::bytes_on_disk;
using testing::ids_in;
using testing::ids_of;
using testing::make_record;
using testing::options_in;
using testing::TemporaryFolder;

constexpr std::int64_t kHourUs = std::int64_t{3600} * 1'000'000, kYearUs = 365 * 24 * kHourUs;

TEST(ReplayBuffer, KeepsRecordsAcrossARestart) {
  TemporaryFolder folder;
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
  for (const ReplayRecord& record : testing::all_records(buffer, "sql")) {
    EXPECT_EQ(record.tokens, make_record(record.request.value, "sql").tokens);
    EXPECT_GT(record.expires_us, wall_us());
  }
  EXPECT_EQ(buffer.append(make_record(41, "sql")), 41U);
}

TEST(ReplayBuffer, FilesAreForTheirOwnerOnly) {
  TemporaryFolder folder;
  ReplayBuffer buffer(options_in(folder));
  buffer.append(make_record(1, "sql"));
  for (const auto& item : std::filesystem::directory_iterator(options_in(folder).folder)) {
    struct stat status {};
    ASSERT_EQ(::stat(item.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
}

TEST(ReplayBuffer, StaysWithinItsBudgetOnDiskToo) {
  TemporaryFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 20'000;
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 600; ++id) {
    buffer.append(make_record(id, "sql"));
    ASSERT_LE(buffer.stats().bytes, options.max_bytes_per_topic);
  }
  EXPECT_GT(buffer.stats().bytes, 18'000U);
  // Twice the live bytes, since half may be dead, plus the growing segment and the headers.
  EXPECT_LE(bytes_on_disk(options.folder), 2 * options.max_bytes_per_topic + 2 * options.segment_bytes);
  const auto kept = ids_in(buffer);
  EXPECT_EQ(kept.size(), buffer.records("sql"));
  EXPECT_GT(*kept.rbegin(), 500U);
}

TEST(ReplayBuffer, CompactionLosesNothingThatIsAlive) {
  TemporaryFolder folder;
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
  TemporaryFolder folder;
  ReplayBuffer buffer(options_in(folder));
  for (std::uint64_t id = 1; id <= 300; ++id) buffer.append(make_record(id, "sql"));
  const auto heldout = buffer.heldout("sql", 1000);
  EXPECT_NEAR(static_cast<double>(heldout.size()), 30, 16);  // 3 standard deviations
  for (const ReplayRecord& record : heldout) EXPECT_TRUE(slip::heldout(record.group, options_in(folder).heldout_share));
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
  TemporaryFolder folder;
  ReplayBuffer buffer(options_in(folder));
  for (std::uint64_t id = 0; id < 180; ++id) {
    ReplayRecord record = make_record(id, "sql");
    record.group = id / 3;
    buffer.append(record);
  }
  std::map<std::uint64_t, int> n_heldout;  // by session
  for (const ReplayRecord& record : buffer.heldout("sql", 1000)) ++n_heldout[record.request.value / 3];
  EXPECT_FALSE(n_heldout.empty());
  for (const auto& [session, n] : n_heldout) EXPECT_EQ(n, 3) << "session " << session;
}

// Regression: a start held 512 records of a topic in memory at once, with long answers gigabytes.
TEST(ReplayBuffer, TheNewestAreReadOneByOne) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  ReplayBuffer buffer(options);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    ReplayRecord record = make_record(id, "sql");
    record.sampled = id == 4;
    buffer.append(record);
  }
  std::vector<std::uint64_t> visited;
  const auto visit = [&](const ReplayRecord& record) { visited.push_back(record.request.value); };
  buffer.visit_newest_of_clients("sql", 4, visit);
  EXPECT_EQ(visited, (std::vector<std::uint64_t>{2, 3, 5, 6}));
  visited.clear();
  buffer.visit_newest_of_clients("sql", 4, [&](const ReplayRecord& record) {
    visit(record);
    std::filesystem::remove(segment_path(options.folder, 1));
  });
  EXPECT_EQ(visited, std::vector<std::uint64_t>{2}) << "the others were still on the disk";
}

// Regression: a record that was written, but had no memory for its entry, left its sequence to the next one. A start
// then dropped that one, and a purge of either reached the other.
TEST(ReplayBuffer, ARecordThatMemoryFailsCostsNoOther) {
  const auto append_while_memory_fails = [] {
    std::optional<testing::Spared> spared(std::in_place);
    const TemporaryFolder folder;
    const ReplayRecord second = make_record(2, "sql");
    {
      ReplayBuffer buffer(options_in(folder));
      buffer.append(make_record(1, "sql"));
      spared.reset();
      try {
        buffer.append(second);
      } catch (const std::bad_alloc&) {
      }
      spared.emplace();
      buffer.append(make_record(3, "sql"));
      buffer.purge({.calls = {RequestId{2}}});
    }
    EXPECT_FALSE(testing::on_disk(options_in(folder).folder, second));
    EXPECT_EQ(ids_in(ReplayBuffer(options_in(folder))), (std::set<std::uint64_t>{1, 3}));
  };
  EXPECT_GT(testing::fail_each(append_while_memory_fails), 10);
}

TEST(ReplayBuffer, ExpiredRecordsLeave) {
  TemporaryFolder folder;
  ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 10; ++id) {
      ReplayRecord record = make_record(id, "sql");
      record.created_us = wall_us();
      record.expires_us = record.created_us + (id <= 4 ? 1'000'000 : 1'000'000'000);
      buffer.append(record);
    }
    EXPECT_EQ(buffer.expire(wall_us() + 2'000'000, monotonic_us() + 2'000'000), 4U);
    EXPECT_EQ(buffer.records("sql"), 6U);
    EXPECT_EQ(buffer.expire(wall_us() - 1'000'000'000, monotonic_us() + 2'000'000),
              0U);  // a clock stepping back expires nothing
    ReplayRecord stale = make_record(11, "sql");
    stale.expires_us = 1;
    buffer.append(stale);
  }
  ReplayBuffer buffer(options);
  EXPECT_FALSE(ids_in(buffer).contains(11)) << "an expiry that passed while nobody ran";
}

// Records made while the clock was a year ahead would otherwise be kept a year too long.
TEST(ReplayBuffer, WhatAWrongClockHasDatedExpiresInTime) {
  TemporaryFolder folder;
  ReplayBuffer buffer(options_in(folder));
  const std::int64_t ttl = options_in(folder).ttl_us, wall = wall_us(), now = monotonic_us();
  ReplayRecord record = make_record(1, "sql");
  record.created_us = wall + kYearUs;
  buffer.append(record);
  const auto expire_after = [&](std::int64_t us) { return buffer.expire(wall + us, now + us); };
  EXPECT_EQ(expire_after(2 * kHourUs), 0U);
  EXPECT_EQ(expire_after(2 * kHourUs + ttl - 1), 0U);
  EXPECT_EQ(expire_after(2 * kHourUs + ttl), 1U);
}

// Regression: a service that started while the date was a week ahead deleted all records at once.
TEST(ReplayBuffer, AStartWithADateAheadExpiresNothingAtOnce) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    ReplayRecord record = make_record(1, "sql");
    record.created_us = wall_us() - kYearUs;  // so the date is a year ahead
    buffer.append(record);
  }
  ReplayBuffer buffer(options);
  const std::int64_t wall = wall_us(), now = monotonic_us();
  EXPECT_EQ(buffer.records("sql"), 1U);
  buffer.append(make_record(2, "sql"));
  EXPECT_EQ(buffer.expire(wall + kHourUs / 2, now + kHourUs / 2), 0U);
  EXPECT_EQ(buffer.expire(wall + 2 * kHourUs, now + 2 * kHourUs), 1U) << "the date was right";
  EXPECT_EQ(ids_in(buffer), std::set<std::uint64_t>{2}) << "it has its whole time";
}

// Regression: after a record that was dated while the date was ahead, such a start deleted all others all the same.
TEST(ReplayBuffer, ARecordFromTheFutureHidesNoRightDateAtTheStart) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    for (const std::int64_t from_now_us : {-kYearUs, kYearUs}) {
      ReplayRecord record = make_record(from_now_us < 0 ? 1 : 2, "sql");
      record.created_us = wall_us() + from_now_us;
      buffer.append(record);
    }
  }
  EXPECT_EQ(ids_in(ReplayBuffer(options)), (std::set<std::uint64_t>{1, 2}));
}

// Regression: a start before the clock was set gave all records an expiry in the past.
TEST(ReplayBuffer, AStartWithADateBehindExpiresNothingLater) {
  TemporaryFolder folder;
  const ReplayOptions options = options_in(folder);
  {
    ReplayBuffer buffer(options);
    ReplayRecord record = make_record(1, "sql");
    record.created_us = wall_us() + kYearUs;  // so the date is a year behind
    buffer.append(record);
  }
  ReplayBuffer buffer(options);
  const std::int64_t wall = wall_us() + kYearUs, now = monotonic_us();  // the clock is set soon after the start
  EXPECT_EQ(buffer.expire(wall + 1, now + 1), 0U);
  EXPECT_EQ(buffer.expire(wall + 2 * kHourUs, now + 2 * kHourUs), 0U);
  EXPECT_EQ(buffer.expire(wall + options.ttl_us, now + options.ttl_us), 1U);
}

// An update keeps the records of older builds. Their files stay readable to the older build, so nothing new is appended
// to them.
TEST(ReplayBuffer, SegmentsOfFormat1AreReadAndNotAddedTo) {
  TemporaryFolder folder;
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

TEST(ReplayBuffer, ARecordOverTheBudgetIsDroppedAndCounted) {
  TemporaryFolder folder;
  ReplayOptions options = options_in(folder);
  options.max_bytes_per_topic = 600;
  ReplayBuffer buffer(options);
  EXPECT_EQ(buffer.append(make_record(1, "sql", 5, 200)), 1U);
  EXPECT_EQ(buffer.records("sql"), 0U);
  EXPECT_EQ(buffer.stats().dropped, 1U);
}

}  // namespace
}  // namespace slip
