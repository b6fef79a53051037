// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/number_automaton.h"

#include <gtest/gtest.h>

#include <random>

#include "common/error.h"
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

// Exactly the multiples, between bounds or not, against arithmetic on thousandths.
TEST(NumberAutomatonTest, MultiplesAreExact) {
  struct Case {
    const char* divisor;
    std::int64_t thousandths;
  };
  std::mt19937_64 random(6);
  int n_multiples = 0, n_others = 0;
  for (const Case& one : {Case{"1", 1000},
                          {"2", 2000},
                          {"7", 7000},
                          {"60", 60'000},
                          {"128", 128'000},
                          {"1000", 1'000'000},
                          {"0.5", 500},
                          {"0.25", 250},
                          {"0.125", 125},
                          {"2.5", 2500},
                          {"0.01", 10},
                          {"0.003", 3}}) {
    NumberShape shape{.multiple_of = divisor_of(*parse_decimal(one.divisor))};
    ASSERT_TRUE(shape.multiple_of) << one.divisor;
    const bool has_low = random() % 2 == 0;
    if (has_low) shape.low = limit("-12.5");
    const ByteAutomaton multiples = numbers(shape);
    for (int i = 0; i < 400; ++i) {
      const auto factor = static_cast<std::int64_t>(random() % 200) - 100;
      const std::int64_t value = one.thousandths * factor + (i % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 5));
      std::string digits = std::to_string(std::abs(value));
      if (digits.size() < 4) digits.insert(0, 4 - digits.size(), '0');
      std::string text =
          (value < 0 ? "-" : "") + digits.substr(0, digits.size() - 3) + "." + digits.substr(digits.size() - 3);
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
      const bool wanted = value % one.thousandths == 0 && (!has_low || value >= -12'500);
      EXPECT_EQ(accepts(multiples, text), wanted) << text << " by " << one.divisor;
      (wanted ? n_multiples : n_others) += 1;
    }
  }
  EXPECT_GT(n_multiples, 1500);
  EXPECT_GT(n_others, 1000);
}

TEST(NumberAutomatonTest, MultiplesHaveFewDigitsAndNoExponent) {
  const ByteAutomaton cents = numbers({.multiple_of = divisor_of(*parse_decimal("0.01"))});
  EXPECT_TRUE(accepts(cents, "1234567890123.45"));
  EXPECT_FALSE(accepts(cents, "12345678901234.5"));
  EXPECT_FALSE(accepts(cents, "1.234"));
  EXPECT_FALSE(accepts(cents, "1e2"));
  const ByteAutomaton sevens = numbers({.multiple_of = divisor_of(*parse_decimal("7"))});
  EXPECT_FALSE(accepts(sevens, "7.0"));
  EXPECT_TRUE(accepts(sevens, "-0"));
  // A thousand remainders, of which four are told apart by what may follow.
  EXPECT_LT(numbers({.multiple_of = divisor_of(*parse_decimal("1000"))}).n_states(), 150);
  for (const char* beyond : {"10001", "0.0000001", "12345678901234567890"}) {
    EXPECT_FALSE(divisor_of(*parse_decimal(beyond))) << beyond;
  }
  EXPECT_THROW(numbers({.multiple_of = divisor_of(*parse_decimal("9973"))}), Error);
}

}  // namespace
}  // namespace slip
