// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/grammar/byte_automaton.h"

namespace slip {

// A decimal number without an exponent.
struct Decimal {
  bool negative = false;
  std::string whole;     // digits without leading zeros; empty for 0.…
  std::string fraction;  // digits without trailing zeros
  bool is_zero() const { return whole.empty() && fraction.empty(); }
};

// Parses a JSON number, exponents such as "-1.5e3" included. Nullopt when it needs more than NumberShape::kMostDigits
// on either side of the point.
std::optional<Decimal> parse_decimal(const std::string& text);

// The numbers that may be written. With a limit or a divisor, numbers are written without an exponent.
struct NumberShape {
  // Maximum digits before and after the point; exponents have two. So every number is finite as a double, and a model
  // cannot write digits for ever.
  static constexpr std::int32_t kMostDigits = 32;
  struct Limit {
    Decimal value;
    bool exclusive = false;
  };
  // Allows only multiples of digits / 10^n_fraction.
  struct Divisor {
    static constexpr std::int32_t kMostDigits = 10'000, kMostFraction = 6;
    std::int32_t digits = 1;
    std::int32_t n_fraction = 0;
  };
  // Maximum digits of a multiple, on both sides of the point together. Doubles distinguish all numbers of 15 digits, so
  // that readers who divide doubles find a multiple, too.
  static constexpr std::int32_t kMostDigitsOfMultiple = 15;
  bool integer = false;
  std::optional<Limit> low, high;
  std::optional<Divisor> multiple_of;
};

// Nullopt outside the limits of Divisor. REQUIRES: `value` is above 0.
std::optional<NumberShape::Divisor> divisor_of(const Decimal& value);

// JSON's numbers of that shape. The states grow with the divisor's digits; too many are Error{kInvalidArgument} naming
// budget.where.
ByteAutomaton number_automaton(const NumberShape& shape, AutomatonBudget& budget);

}  // namespace slip
