// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/number_automaton.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::accepts;

ByteAutomaton numbers(const NumberShape& shape) {
  AutomatonBudget budget;
  return number_automaton(shape, budget);
}

NumberShape::Limit limit(const std::string& text, bool exclusive = false) {
  return {*parse_decimal(text), exclusive};
}

TEST(NumberAutomatonTest, JsonsNumbers) {
  const ByteAutomaton all = numbers({});
  for (const char* text : {"0", "-0", "10", "-1.50", "0.001", "1e5", "1E+07", "12.5e-3"}) {
    EXPECT_TRUE(accepts(all, text)) << text;
  }
  for (const char* text : {"", "-", "01", "+1", ".5", "1.", "1e", "1e+", "1e123", "0x1", "1 "}) {
    EXPECT_FALSE(accepts(all, text)) << text;
  }
  EXPECT_TRUE(accepts(all, std::string(32, '9') + "." + std::string(32, '9') + "e99"));
  EXPECT_FALSE(accepts(all, std::string(33, '9')));
  const ByteAutomaton whole = numbers({.integer = true});
  EXPECT_TRUE(accepts(whole, "-12"));
  EXPECT_FALSE(accepts(whole, "1.0"));
  EXPECT_FALSE(accepts(whole, "1e2"));
}

TEST(NumberAutomatonTest, DecimalsAreReadFromJson) {
  const auto digits = [](const std::string& text) {
    const auto decimal = parse_decimal(text);
    return decimal ? (decimal->negative ? "-" : "") + decimal->whole + "." + decimal->fraction : "none";
  };
  EXPECT_EQ(digits("-12.340"), "-12.34");
  EXPECT_EQ(digits("0"), ".");
  EXPECT_EQ(digits("-0.0"), ".");
  EXPECT_EQ(digits("1.5e3"), "1500.");
  EXPECT_EQ(digits("1.25e-3"), ".00125");
  EXPECT_EQ(digits("1e+31"), "1" + std::string(31, '0') + ".");
  EXPECT_EQ(digits("1e+32"), "none");
  EXPECT_EQ(digits("1e-300"), "none");
}

// Exactly the numbers between the bounds, for bounds of either sign and length, against arithmetic.
TEST(NumberAutomatonTest, BoundsAreExact) {
  std::mt19937_64 random(5);
  const auto eighths = [&] { return static_cast<int>(random() % 2400) - 1200; };
  int n_inside = 0, n_outside = 0;
  for (int round = 0; round < 120; ++round) {
    const int low = eighths(), high = low + static_cast<int>(random() % 900);
    const bool strict_low = random() % 2 == 0, strict_high = random() % 2 == 0, integer = random() % 3 == 0;
    NumberShape shape{.integer = integer};
    const bool has_low = random() % 4 > 0, has_high = random() % 4 > 0;
    if (has_low) shape.low = limit(std::to_string(low / 8.0), strict_low);
    if (has_high) shape.high = limit(std::to_string(high / 8.0), strict_high);
    if (!has_low && !has_high) continue;
    const ByteAutomaton between = numbers(shape);
    for (int i = 0; i < 200; ++i) {
      const int value = i < 100 ? eighths() : (i % 2 == 0 ? low : high) + static_cast<int>(random() % 5) - 2;
      const bool is_integer = value % 8 == 0;
      std::string text = is_integer && random() % 2 == 0 ? std::to_string(value / 8) : std::to_string(value / 8.0);
      const bool inside = (!has_low || (strict_low ? value > low : value >= low)) &&
                          (!has_high || (strict_high ? value < high : value <= high)) &&
                          (!integer || text.find('.') == std::string::npos);
      EXPECT_EQ(accepts(between, text), inside) << text << " between " << low / 8.0 << " and " << high / 8.0;
      (inside ? n_inside : n_outside) += 1;
    }
  }
  EXPECT_GT(n_inside, 2000);
  EXPECT_GT(n_outside, 2000);
}

TEST(NumberAutomatonTest, BoundsThatLeaveNothing) {
  EXPECT_TRUE(numbers({.integer = true, .low = limit("3", true), .high = limit("4", true)}).accepts_nothing());
  EXPECT_TRUE(numbers({.low = limit("2"), .high = limit("1")}).accepts_nothing());
  EXPECT_FALSE(numbers({.low = limit("3", true), .high = limit("4", true)}).accepts_nothing());
  // "1" begins no number from 3 to 5.
  EXPECT_EQ(numbers({.integer = true, .low = limit("3"), .high = limit("5")}).step(0, '1'), ByteAutomaton::kDead);
}

}  // namespace
}  // namespace slip
