// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair_merges.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>

#include "tests/common/patience.h"

namespace slip {
namespace {

using Ids = std::vector<std::int32_t>;

Ids merged(const BytePairMerges& merges, const Ids& symbols) {
  BytePairMerges::Scratch scratch;
  Ids out;
  merges.merge(symbols, scratch, out);
  return out;
}

// The definition: the lowest rank, leftmost first, one at a time.
Ids by_definition(const std::vector<Merge>& merges, Ids symbols) {
  while (true) {
    std::size_t best_rank = merges.size(), best_at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == symbols[i] && merges[rank].right == symbols[i + 1]) best_rank = rank, best_at = i;
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best_at] = merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(BytePairMergesTest, MergesByRankNotByPosition) {
  // a=0 b=1 c=2; bc before ab: "abc" is a + bc.
  const BytePairMerges merges({{1, 2, 10}, {0, 1, 11}});
  EXPECT_EQ(merged(merges, {0, 1, 2}), (Ids{0, 10}));
  EXPECT_EQ(merged(merges, {0, 1, 0}), (Ids{11, 0}));
  EXPECT_EQ(merged(merges, {}), Ids{});
}

TEST(BytePairMergesTest, RepeatedPairsMergeLeftmostFirst) {
  const BytePairMerges merges({{0, 0, 1}});
  EXPECT_EQ(merged(merges, {0, 0, 0}), (Ids{1, 0}));
  EXPECT_EQ(merged(merges, {0, 0, 0, 0, 0}), (Ids{1, 1, 0}));
}

// Random rule sets, with rules whose rank is below that of the rules that make their parts.
TEST(BytePairMergesTest, EqualsTheDefinition) {
  std::mt19937 bits(12);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> rules;
    std::set<std::pair<int, int>> seen;
    for (int i = 0; i < 12; ++i) {
      const auto part = [&] { return static_cast<std::int32_t>(bits() % 9); };
      const Merge rule{part(), part(), static_cast<std::int32_t>(3 + bits() % 6)};
      if (seen.insert({rule.left, rule.right}).second) rules.push_back(rule);
    }
    const BytePairMerges merges(rules);
    Ids symbols(bits() % 40);
    for (std::int32_t& symbol : symbols) symbol = static_cast<std::int32_t>(bits() % 3);
    ASSERT_EQ(merged(merges, symbols), by_definition(rules, symbols)) << "round " << round;
  }
}

// S9's worst case: a megabyte in one piece in which everything merges, many times over.
TEST(BytePairMergesTest, AMegabyteOfOneLetterTakesUnderASecond) {
  std::vector<Merge> rules;
  for (std::int32_t level = 0; level < 12; ++level) rules.push_back({level, level, level + 1});
  const BytePairMerges merges(rules);
  const std::clock_t begin = std::clock();  // processor time: other load does not count
  EXPECT_EQ(merged(merges, Ids(1 << 20, 0)), Ids(1 << 8, 12));
  EXPECT_LT(std::clock() - begin, testing::kPatience * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace slip
