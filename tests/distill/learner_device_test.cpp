// SPDX-License-Identifier: Apache-2.0
// Versions for drafts on a device: the publisher packs them, so every version of a live draft is ready to use.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "engine/cuda/device_draft_runner.h"
#include "tests/distill/learner_fixture.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip {
namespace {

using testing::LearnerSetup;
using testing::stream;

// A learner fixture whose drafts serve on a host-emulated device. Keeps the ids of the threads that packed versions.
struct DeviceLearnerSetup : LearnerSetup {
  DeviceLearnerSetup() {
    options.pack = [this](const ModelWeights& weights) {
      const std::lock_guard lock(mutex);
      packing.insert(std::this_thread::get_id());
      ++n_packed;
      return pack_for(queue)(weights);
    };
    make_ready(*base);
  }
  // As in the registry at start-up: the base draft serves, packed on this thread.
  void make_ready(DraftVersion draft) {
    base = packed(std::move(draft), pack_for(queue));
    auto first = *base;
    first.name = "sql";
    first.draft = {1};
    first.number = 0;
    live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", std::make_shared<const DraftVersion>(std::move(first)));
  }

  const std::shared_ptr<kernels::cuda::HostQueue> queue = std::make_shared<kernels::cuda::HostQueue>();
  std::mutex mutex;
  std::set<std::thread::id> packing;
  int n_packed = 0;
};

bool is_image_of(const DeviceImage& image, const ModelWeights& weights) {
  const DeviceImage own(std::make_shared<kernels::cuda::HostQueue>(), weights);
  const auto a = image.bytes(), b = own.bytes();
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// The version that this thread, in the engine's role, reads from the live draft was packed on the learner's thread.
TEST(LearnerOfADevice, PublishesWhatIsPackedAndPacksOnItsOwnThread) {
  DeviceLearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  std::uint64_t first = 1;
  for (; first < 161; first += 8) {
    stream(*learner, first, 8);
    const auto live = setup.live_draft->get();
    ASSERT_NE(live->image, nullptr) << "version " << live->number;
    ASSERT_TRUE(is_image_of(*live->image, *live->weights)) << "version " << live->number;
  }
  learner->stop();
  const auto n_published = static_cast<int>(setup.recorded.count("publish"));
  EXPECT_GE(n_published, 1);
  EXPECT_EQ(setup.n_packed, n_published) << "candidates that serve nothing are not packed";
  ASSERT_EQ(setup.packing.size(), 1U);
  EXPECT_FALSE(setup.packing.contains(std::this_thread::get_id()));
}

// On a rollback the older version's image still exists, or was made when the watch began.
TEST(LearnerOfADevice, ARollbackIsPackedToo) {
  DeviceLearnerSetup setup;
  const auto good = learn_first(setup);
  setup.live_draft->set(setup.adopt("sql", 77, good->number));
  auto no_training = make_steps_per_request_governor(0);
  auto learner = setup.make_learner(*no_training);
  learner->start();
  stream(*learner, 2001, 32);
  learner->stop();
  ASSERT_EQ(setup.recorded.count("rollback"), 1U);
  const auto live = setup.live_draft->get();
  EXPECT_EQ(live->number, good->number);
  ASSERT_NE(live->image, nullptr);
  EXPECT_TRUE(is_image_of(*live->image, *live->weights));
  EXPECT_FALSE(setup.packing.contains(std::this_thread::get_id()));
}

// If there is no memory for the image, the publication fails as on a full disk, and the next candidate tries again.
TEST(LearnerOfADevice, WhatCannotBePackedIsNotPublished) {
  DeviceLearnerSetup setup;
  setup.options.pack = [](const ModelWeights&) -> std::shared_ptr<const DeviceImage> {
    throw Error(ErrorCode::kTooLarge, "no room");
  };
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 160);
  learner->stop();
  EXPECT_EQ(setup.recorded.count("publish"), 0U);
  EXPECT_EQ(setup.live_draft->get()->number, 0U);
  EXPECT_FALSE(setup.store.current("sql").has_value());
  const auto decisions = setup.recorded.decisions();
  EXPECT_TRUE(std::any_of(decisions.begin(), decisions.end(), [](const CanaryDecision& decision) {
    return decision.kind == "refuse" && decision.verdict.reason.find("no room") != std::string::npos;
  }));
}

}  // namespace
}  // namespace slip
