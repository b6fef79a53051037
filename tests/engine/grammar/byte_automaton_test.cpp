// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/byte_automaton.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "engine/grammar/byte_nfa.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::accepts;

TEST(ByteNfaTest, FragmentsMeanWhatTheySay) {
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  const auto digit = [&] { return nfa.bytes('0', '9'); };
  const auto whole =
      nfa.then(nfa.maybe(nfa.literal("-")), nfa.then(nfa.repeat(digit, 2, 3), nfa.many(nfa.any_of("xy"))));
  const ByteAutomaton made = nfa.determinise(whole);
  for (const char* text : {"12", "-123", "12xyyx"}) EXPECT_TRUE(accepts(made, text)) << text;
  for (const char* text : {"", "-", "1", "1234", "--12", "12z", "x"}) EXPECT_FALSE(accepts(made, text)) << text;
}

TEST(ByteNfaTest, ClosuresOfManyWaysEnd) {
  // A counter of a closure's visits that wraps at 256 walked for ever.
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  const auto whole = nfa.repeat([&] { return nfa.many(nfa.bytes('a', 'a')); }, 400, 400);
  EXPECT_TRUE(accepts(nfa.determinise(whole), "aaaa"));
}

TEST(ByteAutomatonTest, IntersectionAndDifference) {
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  const ByteAutomaton letters = nfa.determinise(nfa.many(nfa.bytes('a', 'c')));
  const ByteAutomaton words = literals({"ab", "abc", "xyz"}, budget);
  const ByteAutomaton both = intersect(letters, words, budget), rest = subtract(letters, words, budget);
  EXPECT_TRUE(accepts(both, "ab"));
  EXPECT_FALSE(accepts(both, "xyz"));
  EXPECT_FALSE(accepts(both, "a"));
  EXPECT_TRUE(accepts(rest, "a"));
  EXPECT_TRUE(accepts(rest, "abca"));
  EXPECT_FALSE(accepts(rest, "abc"));
}

TEST(ByteAutomatonTest, NoStateIsADeadEnd) {
  AutomatonBudget budget;
  ByteNfa nfa(budget);
  const auto lost = nfa.then(nfa.literal("ab"), nfa.nothing());
  const ByteAutomaton made = nfa.determinise(nfa.either(lost, nfa.literal("ac")));
  EXPECT_EQ(made.step(made.step(0, 'a'), 'b'), ByteAutomaton::kDead);
  EXPECT_TRUE(accepts(made, "ac"));
  EXPECT_TRUE(nfa.determinise(lost).accepts_nothing());
}

TEST(ByteAutomatonTest, WhatCostsTooMuchIsRefusedByName) {
  AutomatonBudget budget{.states_left = 50, .where = "schema.a"};
  try {
    literals({std::string(60, 'x')}, budget);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.param(), "schema.a");
  }
}

}  // namespace
}  // namespace slip
