// SPDX-License-Identifier: Apache-2.0
#include "common/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/log.h"

namespace slip {
namespace {

using ::testing::HasSubstr;

TEST(DiskSpace, GoesLowBelowTheLeastAndBackATenthAbove) {
  EXPECT_FALSE(is_disk_low(1000, 1000, false));
  EXPECT_TRUE(is_disk_low(999, 1000, false));
  EXPECT_TRUE(is_disk_low(1050, 1000, true));
  EXPECT_FALSE(is_disk_low(1100, 1000, true));
  EXPECT_FALSE(is_disk_low(0, 0, true)) << "0 never pauses";
}

TEST(DiskSpace, SaysEveryChangeOnceAndRecovers) {
  std::optional<std::uint64_t> free_bytes = 50;
  DiskSpace disk("/data", 100, [&] { return free_bytes; });
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(disk.low());
  EXPECT_TRUE(disk.low());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("serving goes on"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  ::testing::internal::CaptureStderr();
  free_bytes = 1'000;
  disk.set_least(200);  // asks anew
  EXPECT_FALSE(disk.low());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("go on"));
}

TEST(DiskSpace, IsAskedOnceASecondAtMost) {
  int n_asked = 0;
  const auto begin = std::chrono::steady_clock::now();
  DiskSpace disk("/data", 100, [&] {
    ++n_asked;
    return std::optional<std::uint64_t>(1'000);
  });
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(disk.low());
  const auto passed_s = (std::chrono::steady_clock::now() - begin) / std::chrono::seconds(1);  // usually 0
  EXPECT_GE(n_asked, 1);
  EXPECT_LE(n_asked, 1 + passed_s);
}

// A deleted data directory could not be asked for its space, and nothing was said.
TEST(DiskSpace, AFolderThatIsGonePausesAndIsLoggedOnce) {
  bool in_place = false;
  DiskSpace disk(
      "/data", 100, [] { return std::nullopt; }, [&] { return in_place; });
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(disk.gone());
  EXPECT_TRUE(disk.pauses());
  EXPECT_FALSE(disk.low());
  disk.set_least(100);  // asks anew
  EXPECT_TRUE(disk.gone());
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("/data or its file LOCK was deleted, moved or replaced; serving goes on"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  in_place = true;
  disk.set_least(100);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(disk.pauses());
  said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("/data is back"));
}

TEST(DiskSpace, UnknownChangesNothing) {
  std::optional<std::uint64_t> free_bytes = 50;
  DiskSpace disk("/data", 100, [&] { return free_bytes; });
  EXPECT_TRUE(disk.low());
  free_bytes.reset();
  disk.set_least(100);
  EXPECT_TRUE(disk.low());
  DiskSpace nowhere("/no/such/folder", 100);
  EXPECT_FALSE(nowhere.low());
  DiskSpace here("/", 1);
  EXPECT_FALSE(here.low());
}

}  // namespace
}  // namespace slip
