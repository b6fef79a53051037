// SPDX-License-Identifier: Apache-2.0
#include "ledger/row_inbox.h"

#include <gtest/gtest.h>
#include <thread>

namespace slip {
namespace {

LedgerRow numbered(std::uint64_t number) {
  RequestRow row;
  row.request_id = number;
  return row;
}

TEST(RowInbox, KeepsTheOrderAndRefusesWhenFull) {
  RowInbox inbox(2);
  EXPECT_TRUE(inbox.push(numbered(1)));
  EXPECT_TRUE(inbox.push(numbered(2)));
  EXPECT_FALSE(inbox.push(numbered(3)));
  const auto rows = inbox.take_all();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(std::get<RequestRow>(rows[0]).request_id, 1U);
  EXPECT_EQ(std::get<RequestRow>(rows[1]).request_id, 2U);
  EXPECT_TRUE(inbox.push(numbered(4)));
  EXPECT_EQ(inbox.take_all().size(), 1U);
  EXPECT_TRUE(inbox.take_all().empty());
}

TEST(RowInbox, ManyProducersAndOneTakerLoseNothing) {
  RowInbox inbox(std::size_t{1} << 20);
  constexpr std::uint64_t kEach = 5000, kProducers = 4;
  std::vector<std::uint64_t> last(kProducers, 0);
  std::uint64_t received = 0;
  std::vector<std::jthread> producers;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&inbox, producer] {
      for (std::uint64_t i = 1; i <= kEach; ++i) EXPECT_TRUE(inbox.push(numbered(producer << 32 | i)));
    });
  }
  while (received < kEach * kProducers) {
    for (const auto& row : inbox.take_all()) {
      const std::uint64_t id = std::get<RequestRow>(row).request_id;
      EXPECT_EQ(id & 0xFFFFFFFF, ++last[id >> 32]);  // each producer's own order
      ++received;
    }
  }
}

}  // namespace
}  // namespace slip
