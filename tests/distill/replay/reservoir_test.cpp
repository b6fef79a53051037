// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/reservoir.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace slip {
namespace {

ReplayEntry entry_of(std::uint64_t n, std::uint64_t bytes = 10, bool heldout = false) {
  ReplayEntry entry;
  entry.sequence = entry.ordinal = n;
  entry.bytes = bytes;
  entry.heldout = heldout;
  return entry;
}

TEST(Reservoir, StaysWithinItsBudget) {
  Reservoir reservoir(100, 1);
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    reservoir.insert(entry_of(n, 5 + n % 7));
    reservoir.evict_over(400);
    ASSERT_LE(reservoir.bytes(), 400U);
  }
  EXPECT_GT(reservoir.bytes(), 350U);
}

// With weights halving every 100, survival must fall from new to old without a cliff: some old ones stay.
TEST(Reservoir, KeepsNewOnesMoreOftenThanOldOnes) {
  std::map<int, int> kept;  // by fifth of the stream, oldest first
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Reservoir reservoir(200, seed);
    for (std::uint64_t n = 1; n <= 500; ++n) {
      reservoir.insert(entry_of(n));
      reservoir.evict_over(1000);
    }
    for (const auto& [sequence, entry] : reservoir.entries()) ++kept[static_cast<int>((sequence - 1) / 100)];
  }
  EXPECT_GT(kept[4], kept[2]);
  EXPECT_GT(kept[2], kept[0]);
  EXPECT_GT(kept[0], 40);  // one in a hundred at least: a reservoir, not a window
  EXPECT_LT(kept[4], 4000 - 400);
}

TEST(Reservoir, TheSameRecordsLeaveWhateverWasInBetween) {
  Reservoir one(50, 3), other(50, 3);
  for (std::uint64_t n = 1; n <= 300; ++n) {
    one.insert(entry_of(n));
    one.evict_over(500);
    other.insert(entry_of(n));  // as after a restart: all at once
  }
  other.evict_over(500);
  std::set<std::uint64_t> left_one, left_other;
  for (const auto& [sequence, entry] : one.entries()) left_one.insert(sequence);
  for (const auto& [sequence, entry] : other.entries()) left_other.insert(sequence);
  EXPECT_EQ(left_one, left_other);
}

TEST(Reservoir, SamplesByAddressWithoutRepetitionAndNeverHeldOut) {
  Reservoir reservoir(1000, 1);
  for (std::uint64_t n = 1; n <= 100; ++n) reservoir.insert(entry_of(n, 10, n % 10 == 0));
  std::set<std::vector<std::uint64_t>> draws;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    std::vector<std::uint64_t> drawn;
    for (const auto& entry : reservoir.sample(8, 7, draw, 90)) drawn.push_back(entry.sequence);
    EXPECT_EQ(drawn.size(), 8U);
    EXPECT_EQ(std::set<std::uint64_t>(drawn.begin(), drawn.end()).size(), 8U);
    for (const std::uint64_t sequence : drawn) {
      EXPECT_NE(sequence % 10, 0U);
      EXPECT_LE(sequence, 90U);
    }
    std::vector<std::uint64_t> again;
    for (const auto& entry : reservoir.sample(8, 7, draw, 90)) again.push_back(entry.sequence);
    EXPECT_EQ(drawn, again);
    draws.insert(drawn);
  }
  EXPECT_EQ(draws.size(), 20U);
  EXPECT_EQ(reservoir.sample(500, 7, 0, ~std::uint64_t{0}).size(), 90U);
}

// Half-life 20 over 100 records: the newest fifth must carry half of all draws (1 − 2^-1 of the geometric mass).
TEST(Reservoir, DrawsFollowTheRecencyWeights) {
  Reservoir reservoir(20, 1);
  for (std::uint64_t n = 1; n <= 100; ++n) reservoir.insert(entry_of(n));
  int newest_fifth = 0;
  constexpr int kDraws = 4000;
  for (int draw = 0; draw < kDraws; ++draw) {
    newest_fifth += reservoir.sample(1, 3, static_cast<std::uint64_t>(draw), 1000)[0].sequence > 80 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(newest_fifth) / kDraws, 0.5 / (1 - 1.0 / 32), 0.03);  // 4 standard errors
}

}  // namespace
}  // namespace slip
