// SPDX-License-Identifier: Apache-2.0
#include "server/http/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace slip {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(MemoryBudget, HoldsNoMoreThanItsBytes) {
  MemoryBudget budget(1000, 0);
  MemoryBudget::Reservation a(budget), b(budget);
  EXPECT_TRUE(a.resize(600));
  EXPECT_FALSE(b.resize(401));
  EXPECT_EQ(b.bytes(), 0U);
  EXPECT_TRUE(b.resize(400));
  EXPECT_FALSE(a.resize(601));
  EXPECT_EQ(a.bytes(), 600U);
  EXPECT_TRUE(a.resize(100));
  EXPECT_EQ(budget.used(), 500U);
  EXPECT_FALSE(b.resize(SIZE_MAX));
  b.release();
  EXPECT_EQ(budget.used(), 100U);
}

TEST(MemoryBudget, ReservationsMoveAndEnd) {
  MemoryBudget budget(1000, 0);
  {
    MemoryBudget::Reservation a(budget);
    ASSERT_TRUE(a.resize(300));
    MemoryBudget::Reservation b(std::move(a));
    EXPECT_EQ(b.bytes(), 300U);
    EXPECT_TRUE(a.resize(100)) << "what was moved from goes on, empty";
    b.absorb(std::move(a));
    EXPECT_EQ(b.bytes(), 400U);
    MemoryBudget::Reservation c(budget);
    ASSERT_TRUE(c.resize(50));
    c = std::move(b);
    EXPECT_EQ(budget.used(), 400U);
  }
  EXPECT_EQ(budget.used(), 0U);
}

TEST(MemoryBudget, SmallOnesHaveRoomOfTheirOwn) {
  MemoryBudget budget(10 * kMiB, 2 * kMiB);
  MemoryBudget::Reservation large(budget), small(budget);
  EXPECT_FALSE(large.resize(8 * kMiB + 1));
  EXPECT_TRUE(large.resize(8 * kMiB));
  EXPECT_FALSE(small.resize(MemoryBudget::kSmallBytes + 1));
  EXPECT_TRUE(small.resize(MemoryBudget::kSmallBytes));
}

TEST(MemoryBudget, WithoutABudgetThereIsRoom) {
  MemoryBudget::Reservation any;
  EXPECT_TRUE(any.resize(SIZE_MAX));
}

TEST(MemoryBudget, ThreadsShareIt) {
  MemoryBudget budget(1000, 0);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      MemoryBudget::Reservation mine(budget);
      for (std::size_t n = 0; n < 20'000; ++n) {
        mine.resize(n % 500);
        EXPECT_LE(budget.used(), 1000U);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(budget.used(), 0U);
}

}  // namespace
}  // namespace slip
