// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slip {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kDayUs = std::int64_t{24} * 3600 * 1'000'000;
constexpr std::int64_t kNow = 1000 * kDayUs;

std::vector<StoredVersion> aged_days(std::initializer_list<int> ages, std::uint64_t bytes = 10) {
  std::vector<StoredVersion> versions;
  for (const int age : ages) versions.push_back({versions.size() + 1, kNow - age * kDayUs, bytes, false});
  return versions;
}

RetentionPolicy keep(int last, std::uint64_t max_bytes = 1'000'000) {
  RetentionPolicy policy;
  policy.keep_last = last;
  policy.max_bytes = max_bytes;
  return policy;
}

TEST(Retention, KeepsTheLastNAndTheYoung) {
  const auto versions = aged_days({30, 20, 10, 6, 1});
  EXPECT_THAT(plan_retirement(versions, keep(1), kNow, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(plan_retirement(versions, keep(4), kNow, 0), ElementsAre(1));
  EXPECT_THAT(plan_retirement(versions, keep(8), kNow, 0), IsEmpty());
}

TEST(Retention, NeverTakesWhatIsProtected) {
  auto versions = aged_days({30, 20, 10});
  versions[0].is_protected = true;
  EXPECT_THAT(plan_retirement(versions, keep(0), kNow, 0), ElementsAre(2, 3));
  EXPECT_THAT(plan_retirement(versions, keep(0, /*max_bytes=*/0), kNow, 0), ElementsAre(2, 3));
}

TEST(Retention, OverTheBytesTheOldestGoEvenYoung) {
  auto versions = aged_days({3, 2, 1, 0});
  versions[0].is_protected = true;
  EXPECT_THAT(plan_retirement(versions, keep(8, 40), kNow, 0), IsEmpty());
  EXPECT_THAT(plan_retirement(versions, keep(8, 25), kNow, 0), ElementsAre(2, 3));
  EXPECT_THAT(plan_retirement(versions, keep(8, 40), kNow, /*bytes_elsewhere=*/15), ElementsAre(2, 3));
}

TEST(Retention, AClockThatSteppedBackMakesNothingOld) {
  EXPECT_THAT(plan_retirement(aged_days({-5, -4}), keep(0), kNow, 0), IsEmpty());
}

}  // namespace
}  // namespace slip
