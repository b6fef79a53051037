// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_use.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

// Requests of 40 steps, of which each saves `saved_us`. Reading the prompt takes 1,000 µs.
void serve(DraftUse& use, std::uint64_t version, int n_requests, double saved_us) {
  for (int i = 0; i < n_requests; ++i) {
    use.add(version, 0, 1'000);
    for (int step = 0; step < 40; ++step) use.add(version, saved_us, 0);
  }
}

TEST(DraftUse, ADraftThatSavesLessThanItReadsIsGivenUpAndComesBack) {
  DraftUse use;
  EXPECT_TRUE(use.is_worth_reading(1)) << "nothing is known yet";
  serve(use, 1, 3, 10);
  EXPECT_TRUE(use.is_worth_reading(1)) << "too little is known";
  serve(use, 1, 50, 10);
  EXPECT_FALSE(use.is_worth_reading(1));
  serve(use, 1, 30, 100);
  EXPECT_TRUE(use.is_worth_reading(1));
}

TEST(DraftUse, ADraftThatSavesMoreThanItReadsIsKept) {
  DraftUse use;
  for (int i = 0; i < 1000; ++i) {
    serve(use, 1, 1, 40);
    ASSERT_TRUE(use.is_worth_reading(1)) << i;
  }
}

TEST(DraftUse, ANewVersionIsTriedWithAllSequences) {
  DraftUse use;
  serve(use, 1, 100, 0);
  EXPECT_FALSE(use.is_worth_reading(1));
  EXPECT_TRUE(use.is_worth_reading(2));
  serve(use, 2, 2, 0);
  EXPECT_TRUE(use.is_worth_reading(2));
}

TEST(DraftUse, OneSequenceInEightIsAScout) {
  DraftUse use;
  int n = 0;
  for (int i = 0; i < 640; ++i) n += use.takes_scout() ? 1 : 0;
  EXPECT_EQ(n, 80);
}

}  // namespace
}  // namespace slip
