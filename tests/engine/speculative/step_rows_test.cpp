// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/step_rows.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

using Ints = std::vector<std::int32_t>;

Proposal proposal_of(Ints tokens, Ints parents) {
  Proposal proposal;
  proposal.tokens = std::move(tokens);
  proposal.parents = std::move(parents);
  return proposal;
}

Ints ints(std::span<const std::int32_t> values) {
  return {values.begin(), values.end()};
}

// Rows of its sequence that a row sees.
Ints seen_by(const StepInput& input, std::int32_t row) {
  Ints seen;
  for (std::int32_t bit = 0; bit < input.ancestor_words * 64; ++bit) {
    const std::uint64_t word = input.ancestors[static_cast<std::size_t>(row * input.ancestor_words + bit / 64)];
    if ((word >> (bit % 64) & 1) != 0) seen.push_back(bit);
  }
  return seen;
}

TEST(StepRows, ChainsOfAllLengthsStandBehindEachOther) {
  const Ints prompt{1, 2, 3}, one{4};
  const Proposal chain = proposal_of({5, 6}, {-1, 0});
  StepRows rows;
  EXPECT_EQ(rows.add({{prompt, nullptr, 10}}), 0) << "where it would be";
  EXPECT_EQ(rows.add({{one, nullptr, 20}, &chain, WantedLogits::kFromLast}), 0);
  EXPECT_EQ(rows.add({{prompt, nullptr, 30}, nullptr, WantedLogits::kAll}), 5) << "two of its own rows come before";
  EXPECT_EQ(rows.add({{prompt, nullptr, 40}, nullptr, WantedLogits::kFromLast}), 6);
  const StepInput input = rows.step();
  EXPECT_EQ(ints(input.tokens), (Ints{1, 2, 3, 4, 5, 6, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(ints(input.positions), (Ints{10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42}));
  EXPECT_EQ(ints(input.row_begin), (Ints{0, 3, 6, 9, 12}));
  EXPECT_EQ(ints(input.logit_rows), (Ints{3, 4, 5, 6, 7, 8, 11}));
  ASSERT_EQ(input.kv.size(), 4U);
  EXPECT_EQ(input.kv[2].n_cached, 30);
  EXPECT_TRUE(input.ancestors.empty()) << "what sees all before it needs no list of it";
}

// Rows that branch off earlier ones say what they see, and all of their logits are wanted.
TEST(StepRows, ABranchesRowsSeeWhatTheySay) {
  const Ints two{1, 2}, branch{7, 8}, positions{21, 23};
  const std::vector<std::uint64_t> seen{0x10000, 0x20003};
  StepRows rows;
  rows.add({{two, nullptr, 8}, nullptr, WantedLogits::kFromLast});
  rows.add({branch, nullptr, /*n_cached=*/20}, {positions, seen, /*n_ahead=*/16});
  rows.add({{two, nullptr, 4}, nullptr, WantedLogits::kNone});
  const StepInput input = rows.step();
  EXPECT_EQ(ints(input.positions), (Ints{8, 9, 21, 23, 4, 5}));
  EXPECT_EQ(ints(input.row_begin), (Ints{0, 2, 4, 6}));
  EXPECT_EQ(ints(input.logit_rows), (Ints{1, 2, 3}));
  EXPECT_EQ(input.kv[1].n_cached, 20);
  EXPECT_EQ(input.kv[1].n_ahead, 16);
  EXPECT_EQ(seen_by(input, 1), (Ints{0, 1}));
  EXPECT_EQ(seen_by(input, 2), (Ints{16}));
  EXPECT_EQ(seen_by(input, 3), (Ints{0, 1, 17}));
  EXPECT_EQ(seen_by(input, 5), (Ints{0, 1}));
}

// A row sees the rows of its path, beside a chain too.
TEST(StepRows, ATreesRowsSeeTheirPath) {
  const Ints two{1, 2};
  //      root
  //     0    1
  //    2 3    4
  const Proposal tree = proposal_of({7, 8, 9, 10, 11}, {-1, -1, 0, 0, 1}), chain = proposal_of({5}, {-1});
  StepRows rows;
  rows.add({{two, nullptr, 8}, &chain, WantedLogits::kFromLast});
  EXPECT_EQ(rows.add({{two, nullptr, 4}, &tree, WantedLogits::kFromLast}), 2);
  const StepInput input = rows.step();
  EXPECT_EQ(ints(input.positions), (Ints{8, 9, 10, 4, 5, 6, 6, 7, 7, 7}));
  EXPECT_EQ(ints(input.logit_rows), (Ints{1, 2, 4, 5, 6, 7, 8, 9}));
  ASSERT_EQ(input.ancestor_words, 1);
  ASSERT_EQ(input.ancestors.size(), 10U);
  const std::vector<Ints> expected{{0},       {0, 1},    {0, 1, 2},    {0},          {0, 1},
                                   {0, 1, 2}, {0, 1, 3}, {0, 1, 2, 4}, {0, 1, 2, 5}, {0, 1, 3, 6}};
  for (std::int32_t row = 0; row < 10; ++row) {
    EXPECT_EQ(seen_by(input, row), expected[static_cast<std::size_t>(row)]) << row;
  }
}

// More rows than one word has bits; and no row of one step is left in the next.
TEST(StepRows, LongTreesTakeMoreWordsAndTheNextStepNone) {
  Ints tokens(70), parents(70);
  for (std::int32_t i = 0; i < 70; ++i) parents[static_cast<std::size_t>(i)] = i < 2 ? -1 : i - 2;
  const Proposal two_chains = proposal_of(tokens, parents);
  const Ints one{3};
  StepRows rows;
  rows.add({{one, nullptr, 0}, &two_chains, WantedLogits::kFromLast});
  const StepInput wide = rows.step();
  ASSERT_EQ(wide.ancestor_words, 2);
  EXPECT_EQ(wide.positions[70], 35);
  const Ints last = seen_by(wide, 70);
  EXPECT_EQ(last.size(), 36U);
  EXPECT_EQ(last.back(), 70);
  EXPECT_EQ(last[1], 2) << "the second child of the root";
  rows.clear();
  rows.add({{one, nullptr, 1}, nullptr, WantedLogits::kFromLast});
  const StepInput next = rows.step();
  EXPECT_TRUE(next.ancestors.empty());
  EXPECT_EQ(next.ancestor_words, 0);
  EXPECT_EQ(ints(next.tokens), one);
  EXPECT_EQ(ints(next.logit_rows), Ints{0});
}

}  // namespace
}  // namespace slip
