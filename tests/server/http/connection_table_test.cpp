// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>
#include <vector>

namespace slip {
namespace {

using Id = ConnectionTable::Id;
using Right = ConnectionTable::Right;
using ::testing::ElementsAre;

// A table whose connections note who was closed, by the order of entering.
struct Bench {
  Bench(int limit, int reserve) : table(limit, reserve) {}
  std::optional<Id> enter() {
    return table.enter([this, number = n_entered++] { closed.push_back(number); });
  }
  ConnectionTable table;
  int n_entered = 0;
  std::vector<int> closed;
};

TEST(ConnectionTable, TheOneThatWaitedLongestGivesWay) {
  Bench bench(3, 0);
  const auto first = bench.enter(), second = bench.enter(), third = bench.enter();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(bench.table.begin_request(*first), Right::kAnything);
  EXPECT_TRUE(bench.enter());
  EXPECT_THAT(bench.closed, ElementsAre(1)) << "the first is busy, the second waits longer than the third";
  EXPECT_EQ(bench.table.begin_request(*second), Right::kNothing);
  bench.table.end_request(*first);
  EXPECT_TRUE(bench.enter());
  EXPECT_TRUE(bench.enter());
  EXPECT_THAT(bench.closed, ElementsAre(1, 2, 3)) << "a connection waits from the end of its last request on";
}

TEST(ConnectionTable, WhoeverIsBusyIsNeverClosed) {
  Bench bench(2, 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(bench.table.begin_request(*bench.enter()), Right::kAnything);
  const auto probe = bench.enter();
  ASSERT_TRUE(probe);
  EXPECT_EQ(bench.table.begin_request(*probe), Right::kProbes);
  EXPECT_FALSE(bench.enter());
  EXPECT_THAT(bench.closed, ElementsAre());
  bench.table.leave(*probe);
  EXPECT_TRUE(bench.enter());
}

TEST(ConnectionTable, InTheReserveTooTheOneThatWaitedLongestGivesWay) {
  Bench bench(1, 2);
  EXPECT_EQ(bench.table.begin_request(*bench.enter()), Right::kAnything);
  const auto silent = bench.enter(), probe = bench.enter();
  EXPECT_EQ(bench.table.begin_request(*probe), Right::kProbes);
  EXPECT_TRUE(bench.enter());
  EXPECT_THAT(bench.closed, ElementsAre(1));
  EXPECT_EQ(bench.table.begin_request(*silent), Right::kNothing);
}

// Sixty clients whose requests were refused crowded out a probe that had just come.
TEST(ConnectionTable, AFinishedConnectionGivesWayFirst) {
  Bench bench(1, 2);
  EXPECT_EQ(bench.table.begin_request(*bench.enter()), Right::kAnything);
  const auto probe = bench.enter(), refused = bench.enter();
  EXPECT_EQ(bench.table.begin_request(*refused), Right::kProbes);
  bench.table.finish(*refused);
  EXPECT_TRUE(bench.enter());
  EXPECT_THAT(bench.closed, ElementsAre(2));
  EXPECT_EQ(bench.table.begin_request(*probe), Right::kProbes);
}

TEST(ConnectionTable, TheReserveBecomesOrdinaryWhenThereIsRoom) {
  Bench bench(1, 1);
  const auto busy = bench.enter();
  bench.table.begin_request(*busy);
  const auto other = bench.enter();
  EXPECT_EQ(bench.table.begin_request(*other), Right::kProbes);
  bench.table.end_request(*other);
  bench.table.leave(*busy);
  EXPECT_EQ(bench.table.begin_request(*other), Right::kAnything);
  const auto next = bench.enter();
  ASSERT_TRUE(next) << "the reserve is free again";
  EXPECT_EQ(bench.table.begin_request(*next), Right::kProbes);
}

TEST(ConnectionTable, AllAreClosedOnce) {
  Bench bench(2, 1);
  const auto busy = bench.enter(), waiting = bench.enter();
  bench.table.begin_request(*busy);
  bench.table.close_all();
  EXPECT_THAT(bench.closed, ::testing::UnorderedElementsAre(0, 1));
  bench.table.close_all();
  bench.table.leave(*busy);
  EXPECT_TRUE(bench.enter());
  EXPECT_TRUE(bench.enter());
  EXPECT_EQ(bench.table.begin_request(*waiting), Right::kNothing) << "it gave way";
  EXPECT_EQ(bench.closed.size(), 2U);
}

TEST(ConnectionTable, AnyOrderOfCallsKeepsTheBounds) {
  constexpr int kLimit = 5, kReserve = 3;
  Bench bench(kLimit, kReserve);
  std::set<Id> open, busy;
  std::mt19937 random(1);
  const auto any_of = [&](const std::set<Id>& ids) { return *std::next(ids.begin(), random() % ids.size()); };
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 4) {
      case 0:
        if (const auto id = bench.enter()) open.insert(*id);
        break;
      case 1:
        if (open.empty()) break;
        if (const Id id = any_of(open); bench.table.begin_request(id) == Right::kNothing) {
          EXPECT_FALSE(busy.contains(id)) << "closed in the middle of a request";
          open.erase(id);
        } else {
          busy.insert(id);
        }
        break;
      case 2:
        if (busy.empty()) break;
        i % 2 == 0 ? bench.table.end_request(*busy.begin()) : bench.table.finish(*busy.begin());
        busy.erase(busy.begin());
        break;
      default:
        if (open.empty()) break;
        const Id id = any_of(open);
        bench.table.leave(id);
        open.erase(id);
        busy.erase(id);
    }
    ASSERT_LE(busy.size(), static_cast<std::size_t>(kLimit + kReserve));
  }
  EXPECT_GT(bench.closed.size(), 100U);
}

}  // namespace
}  // namespace slip
