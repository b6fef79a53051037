// SPDX-License-Identifier: Apache-2.0
#include "common/patient_clock.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

constexpr std::int64_t kHourUs = std::int64_t{3600} * 1'000'000, kYearUs = 24 * 365 * kHourUs;
constexpr std::int64_t kStart = 50 * kYearUs;

TEST(PatientClock, FollowsTheWallClockWhileBothAgree) {
  PatientClock clock(kHourUs);
  EXPECT_EQ(clock.believe(kStart, 0), kStart);
  EXPECT_EQ(clock.believe(kStart + 1'500'000, 1'000'000), kStart + 1'500'000) << "slewed";
}

TEST(PatientClock, AStepAheadIsBelievedOnceItHasLasted) {
  PatientClock clock(kHourUs);
  clock.believe(kStart, 0);
  const std::int64_t wrong = kStart + kYearUs;
  EXPECT_EQ(clock.believe(wrong + 60'000'000, 60'000'000), kStart + 60'000'000);
  EXPECT_EQ(clock.believe(wrong + kHourUs - 1, kHourUs - 1), kStart + kHourUs - 1);
  EXPECT_EQ(clock.believe(wrong + 2 * kHourUs, 2 * kHourUs), wrong + 2 * kHourUs);
  EXPECT_EQ(clock.believe(wrong + 3 * kHourUs, 3 * kHourUs), wrong + 3 * kHourUs);
}

TEST(PatientClock, ADateThatIsMendedInTimeLeavesNoTrace) {
  PatientClock clock(kHourUs);
  clock.believe(kStart, 0);
  for (int minute = 1; minute < 200; ++minute) {
    const std::int64_t now = minute * std::int64_t{60'000'000};
    const bool wrong = minute % 50 < 40;
    const std::int64_t believed = clock.believe(kStart + now + (wrong ? kYearUs : 0), now);
    EXPECT_EQ(believed, kStart + now) << minute;
  }
}

// A machine that starts before its clock is set deleted all rows of the ledger.
TEST(PatientClock, AStartWithAWrongDateGoesOnFromWhatWasStored) {
  PatientClock clock(kHourUs);
  clock.continue_from(kStart, 0);
  EXPECT_EQ(clock.believe(kStart + kYearUs, 0), kStart);
  EXPECT_EQ(clock.believe(kStart + kYearUs + kHourUs - 1, kHourUs - 1), kStart + kHourUs - 1);
  EXPECT_EQ(clock.believe(kStart + kHourUs, kHourUs), kStart + kHourUs) << "it was set";

  PatientClock idle(kHourUs);
  idle.continue_from(kStart, 0);
  EXPECT_EQ(idle.believe(kStart + kYearUs + kHourUs, kHourUs), kStart + kYearUs + kHourUs) << "it was right";

  PatientClock new_store(kHourUs);
  new_store.continue_from(0, 0);
  EXPECT_EQ(new_store.believe(kStart + 1, 1), kStart + 1);
}

// Bug: one time that was stored while the date was ahead ended the protection of all later starts.
TEST(PatientClock, ATimeStoredWhileTheDateWasAheadDoesNotCount) {
  NewestStored newest(kStart + kYearUs);
  EXPECT_EQ(newest.us(), 0);
  for (const std::int64_t stored_us : {kStart, kStart + 2 * kYearUs, kStart - kHourUs}) newest.see(stored_us);
  EXPECT_EQ(newest.us(), kStart);
}

TEST(PatientClock, SoIsAStepBack) {
  PatientClock clock(kHourUs);
  clock.believe(kStart, 0);
  EXPECT_EQ(clock.believe(kStart - kYearUs, 1), kStart + 1);
  EXPECT_EQ(clock.believe(kStart - kYearUs + kHourUs, kHourUs), kStart - kYearUs + kHourUs);
  EXPECT_EQ(clock.believe(kStart - kYearUs + kHourUs + 5, kHourUs + 5), kStart - kYearUs + kHourUs + 5);
}

}  // namespace
}  // namespace slip
