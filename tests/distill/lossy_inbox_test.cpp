// SPDX-License-Identifier: Apache-2.0
#include "distill/lossy_inbox.h"

#include <gtest/gtest.h>
#include <chrono>
#include <memory>
#include <thread>

namespace slip {
namespace {

std::deque<int> taken_from(LossyInbox<int>& inbox) {
  std::deque<int> out;
  inbox.take_all(out);
  return out;
}

TEST(LossyInbox, KeepsTheOrder) {
  LossyInbox<int> inbox(10);
  for (int i = 0; i < 5; ++i) inbox.push(i);
  EXPECT_EQ(inbox.lost(), 0U);
  EXPECT_EQ(taken_from(inbox), (std::deque<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(taken_from(inbox).empty());
}

TEST(LossyInbox, FullDropsTheOldestAndCounts) {
  LossyInbox<int> inbox(8);
  for (int i = 0; i < 100; ++i) inbox.push(i);
  const auto left = taken_from(inbox);
  EXPECT_LE(left.size(), 8U);
  EXPECT_GE(left.size(), 4U);
  EXPECT_EQ(inbox.lost() + left.size(), 100U);
  EXPECT_EQ(left.back(), 99);
  for (std::size_t i = 1; i < left.size(); ++i) EXPECT_EQ(left[i], left[i - 1] + 1);
  EXPECT_EQ(inbox.pushed(), 100U);
}

TEST(LossyInbox, WeightsFillItAsManyItemsWould) {
  LossyInbox<int> inbox(100);
  for (int i = 0; i < 4; ++i) inbox.push(i, /*wakes=*/true, /*weight=*/30);
  EXPECT_EQ(taken_from(inbox), (std::deque<int>{2, 3})) << "one of the first three fits into half of it";
  EXPECT_EQ(inbox.lost(), 2U);
  for (int i = 0; i < 3; ++i) inbox.push(i, /*wakes=*/true, /*weight=*/1000);
  EXPECT_EQ(taken_from(inbox), (std::deque<int>{2})) << "the newest may always wait";
  for (int i = 0; i < 100; ++i) inbox.push(i);
  EXPECT_EQ(taken_from(inbox).size(), 100U) << "nothing was left of the others";
}

// Without a consumer, pushing still works and memory stays bounded.
TEST(LossyInbox, AStoppedConsumerNeverBlocksAProducer) {
  LossyInbox<std::unique_ptr<int>> inbox(64);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200'000; ++i) inbox.push(std::make_unique<int>(i));
  EXPECT_GE(inbox.lost(), 200'000U - 64);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(LossyInbox, WaitingEndsWithAnItemAWakeOrTheTime) {
  LossyInbox<int> inbox(8);
  const auto begin = std::chrono::steady_clock::now();
  inbox.wait_for(20'000);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(15));
  std::thread pusher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    inbox.push(1);
  });
  inbox.wait_for(60'000'000);
  pusher.join();
  EXPECT_EQ(taken_from(inbox).size(), 1U);
  std::thread waker([&] { inbox.wake(); });
  inbox.wait_for(60'000'000);
  waker.join();
}

TEST(LossyInbox, APauseEndsWithAWakeOrTheTimeWhateverWaits) {
  LossyInbox<int> inbox(8);
  inbox.push(1);
  const auto begin = std::chrono::steady_clock::now();
  inbox.pause_for(20'000);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(15));
  std::thread waker([&] { inbox.wake(); });
  inbox.pause_for(60'000'000);
  waker.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "or it slept through the wake";
}

// Items pushed with `wakes` false let the consumer sleep. An urgent item, or half of the capacity, wakes it.
TEST(LossyInbox, AnItemThatNobodyWaitsForWakesNobody) {
  LossyInbox<int> inbox(8);
  const auto waits_for = [&](auto push_some) {
    std::thread pusher([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      push_some();
    });
    const auto begin = std::chrono::steady_clock::now();
    inbox.wait_for(300'000);
    const auto waited = std::chrono::steady_clock::now() - begin;
    pusher.join();
    taken_from(inbox);
    return std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
  };
  EXPECT_GE(waits_for([&] { inbox.push(1, /*wakes=*/false); }), 280);
  EXPECT_LT(waits_for([&] {
              inbox.push(1, /*wakes=*/false);
              inbox.push(2);
            }),
            280);
  EXPECT_LT(waits_for([&] {
              for (int i = 0; i < 5; ++i) inbox.push(i, /*wakes=*/false);
            }),
            280);
}

TEST(LossyInbox, NothingIsLostUncountedBetweenTwoThreads) {
  LossyInbox<int> inbox(32);
  constexpr int kItems = 50'000;
  std::thread producer([&] {
    for (int i = 0; i < kItems; ++i) inbox.push(i);
  });
  std::deque<int> all;
  while (inbox.pushed() < kItems) {
    inbox.take_all(all);
    inbox.wait_for(1000);
  }
  producer.join();
  inbox.take_all(all);
  EXPECT_EQ(all.size() + inbox.lost(), static_cast<std::size_t>(kItems));
  for (std::size_t i = 1; i < all.size(); ++i) ASSERT_GT(all[i], all[i - 1]);
}

}  // namespace
}  // namespace slip
