// SPDX-License-Identifier: Apache-2.0
#include "common/lock_free_inbox.h"

#include <gtest/gtest.h>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace slip {
namespace {

TEST(LockFreeInbox, KeepsTheOrderAndRefusesWhenFull) {
  LockFreeInbox<int> inbox(2);
  EXPECT_TRUE(inbox.push(1));
  EXPECT_TRUE(inbox.push(2));
  EXPECT_FALSE(inbox.push(3));
  const auto taken = inbox.take_all();
  EXPECT_EQ(std::vector<int>(taken.begin(), taken.end()), (std::vector<int>{1, 2}));
  EXPECT_TRUE(inbox.push(4));
  EXPECT_FALSE(inbox.take_all().empty());
  EXPECT_TRUE(inbox.take_all().empty());
}

TEST(LockFreeInbox, FreesItemsThatWereNeverTaken) {
  const auto item = std::make_shared<int>(1);
  {
    LockFreeInbox<std::shared_ptr<int>> inbox(4);
    inbox.push(std::shared_ptr<int>(item));
    EXPECT_EQ(item.use_count(), 2);
  }
  EXPECT_EQ(item.use_count(), 1);
}

TEST(LockFreeInbox, ManyProducersAndOneTakerLoseNothing) {
  LockFreeInbox<std::uint64_t> inbox(std::size_t{1} << 20);
  constexpr std::uint64_t kEach = 5000, kProducers = 4;
  std::vector<std::uint64_t> last(kProducers, 0);
  std::uint64_t received = 0;
  std::vector<std::jthread> producers;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&inbox, producer] {
      for (std::uint64_t i = 1; i <= kEach; ++i) EXPECT_TRUE(inbox.push(producer << 32 | i));
    });
  }
  while (received < kEach * kProducers) {
    for (const std::uint64_t item : inbox.take_all()) {
      EXPECT_EQ(item & 0xFFFFFFFF, ++last[item >> 32]);  // each producer's own order
      ++received;
    }
  }
}

}  // namespace
}  // namespace slip
