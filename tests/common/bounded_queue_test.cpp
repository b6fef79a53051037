// SPDX-License-Identifier: Apache-2.0
#include "common/bounded_queue.h"

#include <gtest/gtest.h>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace slip {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueue, GivesItemsBackInOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, RefusesWhenFullAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(std::move(second)));
  ASSERT_NE(second, nullptr);  // NOLINT(bugprone-use-after-move): the contract says untouched
  EXPECT_EQ(*second, 2);
}

TEST(BoundedQueue, AfterCloseRefusesAndDrains) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.try_push(7));
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesWhoWaits) {
  BoundedQueue<int> queue(1);
  std::thread waiting([&] { EXPECT_EQ(queue.pop(), std::nullopt); });
  std::this_thread::sleep_for(5ms);
  queue.close();
  waiting.join();
}

TEST(BoundedQueue, LosesNothingBetweenManyThreads) {
  BoundedQueue<int> queue(8);
  constexpr int kEach = 2000, kProducers = 3;
  std::atomic<long> sum{0};
  std::atomic<int> received{0};
  std::vector<std::jthread> threads;
  for (int consumer = 0; consumer < 2; ++consumer) {
    threads.emplace_back([&] {
      while (const auto item = queue.pop()) {
        sum += *item;
        ++received;
      }
    });
  }
  {
    std::vector<std::jthread> producers;
    for (int producer = 0; producer < kProducers; ++producer) {
      producers.emplace_back([&] {
        for (int i = 1; i <= kEach; ++i) {
          while (!queue.try_push(int{i})) std::this_thread::yield();
        }
      });
    }
  }
  queue.close();
  threads.clear();
  EXPECT_EQ(received, kEach * kProducers);
  EXPECT_EQ(sum, static_cast<long>(kProducers) * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace slip
