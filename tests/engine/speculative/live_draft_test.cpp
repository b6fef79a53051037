// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/live_draft.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/cuda/device_draft_runner.h"
#include "tests/engine/tiny_draft.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip {
namespace {

std::shared_ptr<const DraftVersion> version(std::uint64_t number) {
  auto made = std::make_shared<DraftVersion>();
  made->number = number;
  return made;
}

TEST(LiveDraft, KeepsAReplacedVersionUntilNobodyHoldsIt) {
  LiveDraft live_draft(DraftId{1}, "sql", version(1));
  auto held = live_draft.get();
  const std::weak_ptr<const DraftVersion> first = held;
  live_draft.set(version(2));
  EXPECT_EQ(live_draft.get()->number, 2U);
  live_draft.reclaim();
  EXPECT_FALSE(first.expired());
  held.reset();  // the reader's is never the last reference
  EXPECT_FALSE(first.expired());
  live_draft.reclaim();
  EXPECT_TRUE(first.expired());
}

// An image is made once, by whoever makes the version ready; those that share weights share it.
TEST(DraftVersion, IsPackedOnceWhereItIsMade) {
  int n_packed = 0;
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  const PackDraft pack = [&](const ModelWeights& weights) {
    ++n_packed;
    return pack_for(queue)(weights);
  };
  const DraftVersion made = *testing::draft_version(testing::tiny_draft(testing::tiny_draft_config(60), 1), 1);
  EXPECT_EQ(packed(made, nullptr)->image, nullptr) << "the CPU needs none";
  const auto ready = packed(made, pack);
  ASSERT_NE(ready->image, nullptr);
  EXPECT_EQ(n_packed, 1);
  EXPECT_EQ(packed(*ready, pack)->image, ready->image);
  EXPECT_EQ(n_packed, 1);
  EXPECT_EQ(ready->number, 1U);
  EXPECT_EQ(ready->weights, made.weights);
}

TEST(LiveDraft, AVersionThatComesBackByRollbackStays) {
  const auto first = version(1);
  LiveDraft live_draft(DraftId{1}, "sql", first);
  live_draft.set(version(2));
  live_draft.set(first);
  live_draft.reclaim();
  EXPECT_EQ(live_draft.get(), first);
}

// Bug: such a version was in the list of replaced ones twice. Each entry kept the other from being freed.
TEST(LiveDraft, AVersionThatCameBackIsFreedOnceItIsReplacedAgain) {
  auto first = version(1);
  const std::weak_ptr<const DraftVersion> watched = first;
  LiveDraft live_draft(DraftId{1}, "sql", first);
  for (std::uint64_t number = 2; number < 5; ++number) {
    live_draft.set(version(number));
    live_draft.set(first);
  }
  live_draft.set(version(5));
  live_draft.reclaim();
  EXPECT_FALSE(watched.expired());
  first.reset();
  live_draft.reclaim();
  EXPECT_TRUE(watched.expired());
}

TEST(LiveDraft, ReadersAndOneWriterMeetWithoutLoss) {
  LiveDraft live_draft(DraftId{1}, "sql", version(1));
  std::atomic<bool> done = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::uint64_t last = 0;
      while (!done) {
        const auto seen = live_draft.get();
        ASSERT_GE(seen->number, last);
        last = seen->number;
      }
    });
  }
  for (std::uint64_t number = 2; number < 2000; ++number) {
    live_draft.set(version(number));
    live_draft.reclaim();
  }
  done = true;
}

}  // namespace
}  // namespace slip
