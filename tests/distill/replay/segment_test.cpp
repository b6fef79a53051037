// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/segment.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <chrono>
#include <set>

#include "tests/distill/sample_records.h"
#include "tests/failing_allocations.h"

namespace slip {
namespace {

using testing::make_record;
using testing::number_at;
using testing::TemporaryFolder;

std::vector<std::byte> segment_of(int records) {
  auto file = encode_segment_header(1);
  for (int i = 1; i <= records; ++i) {
    ReplayRecord record = make_record(static_cast<std::uint64_t>(i), "sql");
    record.sequence = static_cast<std::uint64_t>(i);
    const auto frame = encode_record(record, static_cast<std::uint64_t>(i));
    file.insert(file.end(), frame.begin(), frame.end());
  }
  return file;
}

std::set<std::uint64_t> sequences(const SegmentScan& scan) {
  std::set<std::uint64_t> found;
  for (const auto& frame : scan.frames) found.insert(frame.header.sequence);
  return found;
}

TEST(Segment, FindsEveryFrame) {
  const auto file = segment_of(4);
  const SegmentScan scan = scan_segment(file);
  EXPECT_EQ(sequences(scan), (std::set<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(scan.good_bytes, file.size());
  EXPECT_EQ(scan.damaged_bytes, 0U);
}

TEST(Segment, ATornTailEndsAtTheLastWholeFrame) {
  const auto whole = segment_of(2).size();
  const auto file = segment_of(3);
  for (std::size_t n = whole; n < file.size(); n += 7) {
    const SegmentScan scan = scan_segment(std::span(file).first(n));
    EXPECT_EQ(scan.frames.size(), 2U);
    EXPECT_EQ(scan.good_bytes, whole);
  }
}

TEST(Segment, ADamagedFrameIsSkippedAndTheNextOnesAreFound) {
  auto file = segment_of(4);
  const SegmentScan before = scan_segment(file);
  file[before.frames[1].offset + 100] ^= std::byte{0x40};
  const SegmentScan scan = scan_segment(file);
  EXPECT_EQ(sequences(scan), (std::set<std::uint64_t>{1, 3, 4}));
  EXPECT_EQ(scan.damaged_gaps, 1U);
  EXPECT_EQ(scan.good_bytes, file.size());
}

TEST(Segment, OnlyAFrameCutShortAtTheGrowingEndIsTorn) {
  const auto whole = segment_of(2);
  auto longer = segment_of(3);
  for (std::size_t n = whole.size() + 1; n < longer.size(); n += 7) {
    const SegmentScan growing = scan_segment(std::span(longer).first(n));
    EXPECT_EQ(growing.torn_bytes, n - whole.size());
    EXPECT_EQ(growing.damaged_records, 0U);
    const SegmentScan sealed = scan_segment(std::span(longer).first(n), /*growing=*/false);
    EXPECT_EQ(sealed.torn_bytes, 0U);
    EXPECT_EQ(sealed.damaged_bytes, n - whole.size());
    EXPECT_EQ(sealed.damaged_records, 1U);
  }
  std::fill(longer.begin() + static_cast<std::ptrdiff_t>(whole.size()), longer.end(), std::byte{0});
  EXPECT_EQ(scan_segment(longer).torn_bytes, 0U) << "no write leaves zeros";
  EXPECT_EQ(scan_segment(longer).damaged_bytes, longer.size() - whole.size());
}

// Regression: both were mistaken for a new segment after a crash. New segments now appear with their header.
TEST(Segment, AFileWithoutAWholeHeaderIsDamagedWhereverItStands) {
  const auto file = segment_of(1);
  for (const bool growing : {true, false}) {
    EXPECT_EQ(scan_segment({}, growing).damaged_records, 1U);
    const SegmentScan cut = scan_segment(std::span(file).first(kSegmentHeaderBytes - 1), growing);
    EXPECT_EQ(cut.torn_bytes, 0U);
    EXPECT_EQ(cut.damaged_bytes, kSegmentHeaderBytes - 1);
    EXPECT_EQ(scan_segment(std::span(file).first(kSegmentHeaderBytes), growing).damaged_bytes, 0U) << "no record yet";
  }
}

TEST(Segment, RecordsInDamagedBytesAreCountedByTheirBeginnings) {
  auto file = segment_of(6);
  const SegmentScan before = scan_segment(file);
  for (const std::size_t i : {1U, 2U, 5U}) file[before.frames[i].offset + 100] ^= std::byte{0x40};
  const SegmentScan scan = scan_segment(file);
  EXPECT_EQ(scan.damaged_gaps, 2U);
  EXPECT_EQ(scan.damaged_records, 3U);
}

TEST(Segment, ADamagedHeaderCostsNoRecord) {
  auto file = segment_of(3);
  file[2] ^= std::byte{1};
  EXPECT_EQ(scan_segment(file).frames.size(), 3U);
  EXPECT_EQ(scan_segment(file).damaged_records, 0U);
}

TEST(Segment, ALaterFormatVersionIsLeftAlone) {
  EXPECT_TRUE(scan_segment(testing::segment_header_of_format(5, 1)).foreign);
  EXPECT_TRUE(scan_segment(testing::segment_header_of_format(0, 1)).foreign);
  auto file = encode_segment_header(1);
  file[8] = std::byte{5};  // format version, without a right CRC for it
  EXPECT_FALSE(scan_segment(file).foreign) << "a wrong CRC means damage, not another version";
}

TEST(Segment, AnEarlierFormatVersionIsReadAndSaysSo) {
  auto file = testing::segment_header_of_format(1, 1);
  ReplayRecord record = make_record(1, "sql");
  record.sequence = 1;
  const auto frame = testing::encode_as_format_1(record, 1);
  file.insert(file.end(), frame.begin(), frame.end());
  const SegmentScan scan = scan_segment(file);
  EXPECT_TRUE(scan.older);
  EXPECT_FALSE(scan.foreign);
  EXPECT_EQ(sequences(scan), (std::set<std::uint64_t>{1}));
  EXPECT_EQ(scan.damaged_bytes, 0U);
  EXPECT_FALSE(scan_segment(segment_of(1)).older);
}

// Whatever happens to the bytes: no crash, and only frames that were written come back.
TEST(Segment, FuzzedFilesGiveOnlyWhatWasWritten) {
  const auto file = segment_of(6);
  const SegmentScan truth = scan_segment(file);
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    auto hurt = file;
    const int flips = 1 + number_at(seed, 0, 12);
    for (int i = 0; i < flips; ++i) {
      const auto at = static_cast<std::size_t>(
          number_at(seed, static_cast<std::uint32_t>(2 * i + 1), static_cast<std::int32_t>(hurt.size())));
      hurt[at] = static_cast<std::byte>(number_at(seed, static_cast<std::uint32_t>(2 * i + 2), 256));
    }
    if (number_at(seed, 40, 2) == 0) {
      hurt.resize(static_cast<std::size_t>(number_at(seed, 41, static_cast<std::int32_t>(hurt.size()))));
    }
    const SegmentScan scan = scan_segment(hurt);
    ASSERT_LE(scan.good_bytes, hurt.size());
    for (const auto& frame : scan.frames) {
      const auto same = std::find_if(truth.frames.begin(), truth.frames.end(),
                                     [&](const auto& other) { return other.offset == frame.offset; });
      ASSERT_NE(same, truth.frames.end());
      ASSERT_TRUE(std::equal(hurt.begin() + static_cast<std::ptrdiff_t>(frame.offset),
                             hurt.begin() + static_cast<std::ptrdiff_t>(frame.offset + frame.header.frame_bytes),
                             file.begin() + static_cast<std::ptrdiff_t>(frame.offset)));
    }
  }
}

// A hostile file that would be slow to scan: magics everywhere, each claiming megabytes.
TEST(Segment, AFileFullOfMagicsIsGivenUpQuickly) {
  auto file = encode_segment_header(1);
  const auto frame = encode_record(make_record(1, "sql"), 1);
  while (file.size() < (std::size_t{8} << 20)) {
    file.insert(file.end(), frame.begin(), frame.begin() + 16);
    file[file.size() - 8] = std::byte{0};  // payload bytes: 4 MiB
    file[file.size() - 6] = std::byte{0x40};
  }
  const auto begin = std::chrono::steady_clock::now();
  const SegmentScan scan = scan_segment(file);
  EXPECT_TRUE(scan.gave_up);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Segment, OneNameANumber) {
  EXPECT_EQ(segment_path("", 42).string(), "segment-0000000042.replay");
  EXPECT_EQ(segment_number("segment-0000000042.replay"), 42U);
  for (const char* name : {"segment-42.replay", "segment-0000000042.replay.tmp", "segment-00000000x2.replay", "LOCK",
                           "segment-0000000000.replay", "segment-.replay", "segment-99999999999999999999.replay"}) {
    EXPECT_FALSE(segment_number(name).has_value()) << name;
  }
}

// Regression: memory that ran out after the rename left the file, and its number was refused for good.
TEST(Segment, ANumberIsFreeAgainWhereverMemoryRanOut) {
  const TemporaryFolder folder;
  EXPECT_GT(testing::fail_each([&] { create_segment(folder.path(), 1); }), 1);
  EXPECT_TRUE(std::filesystem::exists(segment_path(folder.path(), 1))) << "the last attempt had memory";
}

}  // namespace
}  // namespace slip
