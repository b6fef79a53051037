// SPDX-License-Identifier: Apache-2.0
#include "distill/sample_ring.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

struct Sample {
  std::int64_t at_us = 0;
};

TEST(SampleRing, KeepsTheLatestAndLeavesOutWhatComesTooEarly) {
  SampleRing<Sample, 3> ring(10);
  for (const std::int64_t at_us : {5, 14, 15, 24, 25}) ring.add({at_us});
  EXPECT_TRUE(ring.full()) << "5, 15, 25";
  EXPECT_EQ(ring.oldest().at_us, 5);
  ring.add({36});
  EXPECT_EQ(ring.oldest().at_us, 15);
  EXPECT_EQ(ring.newest().at_us, 36);
}

TEST(SampleRing, BeforeItIsFullTheOldestIsTheFirst) {
  SampleRing<Sample, 3> ring(10);
  ring.add({0});
  ring.add({10});
  EXPECT_FALSE(ring.full());
  EXPECT_EQ(ring.oldest().at_us, 0);
  EXPECT_EQ(ring.newest().at_us, 10);
}

}  // namespace
}  // namespace slip
