// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/inspect/inspection_fixture.h"

#include <fstream>

#include "tests/common/damage.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A segment that was overwritten counted as the tail that a crash leaves: 870 records were gone without a word.
TEST_F(InspectionTest, ASegmentThatWasOverwrittenIsAFault) {
  const fs::path replay = folder_.path() / "replay", segment = replay / "segment-0000000001.replay";
  record_replay(replay);
  const auto bytes = fs::file_size(segment);
  const auto overwrite = [&](std::uintmax_t from, std::uintmax_t to) {
    testing::overwrite(segment, static_cast<std::streamoff>(from), std::string(to - from, '\0'));
  };
  overwrite(bytes - 50, bytes);
  EXPECT_THAT(faults_of(replay),
              ElementsAre(AllOf(HasSubstr(segment.string()), HasSubstr("records lost: at least 1"))));
  overwrite(30, bytes);
  EXPECT_THAT(faults_of(replay), ElementsAre(HasSubstr(std::to_string(bytes - 24) + " bytes")));
  overwrite(0, bytes);
  const json found = look(replay);
  EXPECT_EQ(found["faults"].size(), 1U);
  EXPECT_EQ(found["segments"][0]["state"], "damaged");
  EXPECT_EQ(found["facts"]["records"], 0);
}

TEST_F(InspectionTest, OnlyTheNewestSegmentMayEndInATornRecord) {
  const fs::path replay = folder_.path() / "replay", segment = replay / "segment-0000000001.replay";
  record_replay(replay);
  fs::copy(segment, replay / "segment-0000000002.replay");
  for (const char* name : {"segment-0000000001.replay", "segment-0000000002.replay"}) {
    fs::resize_file(replay / name, fs::file_size(replay / name) - 7);
  }
  EXPECT_THAT(faults_of(replay),
              ElementsAre(HasSubstr(segment.string()), HasSubstr("segment-0000000002.replay: 11 records are skipped")));
  fs::remove(segment);
  EXPECT_THAT(faults_of(replay), ::testing::IsEmpty());
  fs::create_symlink(replay / "segment-0000000002.replay", segment);
  EXPECT_THAT(faults_of(replay), ElementsAre(AllOf(HasSubstr(segment.string()), HasSubstr("symbolic link"))));
}

// A service skipped the copies and said so, `inspect` counted them.
TEST_F(InspectionTest, CopiesOfRecordsAreAFaultAsForAService) {
  const fs::path replay = folder_.path() / "replay";
  record_replay(replay);
  EXPECT_THAT(faults_of(replay), ::testing::IsEmpty());
  fs::copy(replay / "segment-0000000001.replay", replay / "segment-0000000002.replay");
  const json found = look(replay);
  EXPECT_EQ(found["facts"]["records"], 12);
  EXPECT_EQ(found["facts"]["skipped_records"], 12);
  EXPECT_THAT(faults_of(replay), ElementsAre(HasSubstr("segment-0000000002.replay: 12 records are skipped")));
}

// An empty segment before others was called whole, and so was an emptied newest one, whose records were gone. A segment
// appears with its header, so no crash leaves either.
TEST_F(InspectionTest, AnEmptySegmentIsAFault) {
  const fs::path replay = folder_.path() / "replay";
  record_replay(replay);
  std::ofstream(replay / "segment-0000000002.replay").flush();
  EXPECT_THAT(faults_of(replay), ElementsAre(HasSubstr("segment-0000000002.replay: damaged: it is empty")));
  fs::rename(replay / "segment-0000000001.replay", replay / "segment-0000000003.replay");
  EXPECT_THAT(faults_of(replay), ElementsAre(HasSubstr("segment-0000000002.replay: damaged: it is empty")));
  EXPECT_EQ(look(replay)["segments"][0]["state"], "damaged");
}

// No service reads it, and `inspect` counted its records.
TEST_F(InspectionTest, ASegmentWithTooLargeANumberIsAFault) {
  const fs::path replay = folder_.path() / "replay";
  record_replay(replay);
  fs::rename(replay / "segment-0000000001.replay", replay / "segment-18446744073709551615.replay");
  EXPECT_THAT(faults_of(replay), ElementsAre(HasSubstr("segment-18446744073709551615.replay: its number is over")));
  EXPECT_EQ(look(replay)["facts"]["records"], 0);
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
  testing::overwrite(segment, 200, "damage");
  EXPECT_EQ(look(segment)["segments"][0]["state"], "damaged");
}
}  // namespace
}  // namespace slip::cli
