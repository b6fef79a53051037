// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/number_automaton.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <map>
#include <vector>

namespace slip {

namespace {

constexpr std::int32_t kMostExponentDigits = 2;

// How the digits so far compare with a limit's magnitude, over their common length.
enum class Order : std::int8_t { kLess = -1, kEqual = 0, kGreater = 1 };

Order compare(char digit, char bound) {
  return digit < bound ? Order::kLess : digit > bound ? Order::kGreater : Order::kEqual;
}

enum class Phase : std::uint8_t { kStart, kMinus, kZero, kWhole, kPoint, kFraction, kE, kExponentSign, kExponent };

struct State {
  Phase phase = Phase::kStart;
  bool negative = false;
  std::int32_t n_digits = 0;                        // in this phase
  std::int32_t remainder = 0;                       // the class of the remainder of the digits so far
  Order low = Order::kEqual, high = Order::kEqual;  // against the limits of the magnitude
  auto operator<=>(const State&) const = default;
};

// The limits of |x| for one sign of x.
struct Magnitudes {
  bool possible = true;
  const NumberShape::Limit* low = nullptr;
  const NumberShape::Limit* high = nullptr;
};

// The states of an automaton that computes a number's remainder digit by digit. Remainders that no further digits
// distinguish are one class (Moore's refinement): 1000 has four classes. Class 0 is remainder 0.
class Remainders {
 public:
  Remainders(std::int32_t divisor, AutomatonBudget& budget)
      : divisor_(divisor), class_of_(static_cast<std::size_t>(divisor), 1) {
    class_of_.front() = 0;
    refine(budget);
    for (std::size_t n_before = 0; n_before != first_of_.size();) {
      n_before = first_of_.size();
      refine(budget);
    }
  }

  std::int32_t read(std::int32_t from, std::uint8_t digit) const {
    return class_after(first_of_[static_cast<std::size_t>(from)], digit - '0');
  }

 private:
  static constexpr std::size_t kWays = 11;  // no digit, or one of ten
  using Signature = std::array<std::int32_t, kWays>;

  std::int32_t class_after(std::int32_t remainder, std::int32_t digit) const {
    return class_of_[static_cast<std::size_t>((10 * remainder + digit) % divisor_)];
  }

  void refine(AutomatonBudget& budget) {
    budget.take_steps(class_of_.size() * kWays);
    std::map<Signature, std::int32_t> numbers;
    std::vector<std::int32_t> refined;
    first_of_.clear();
    for (std::int32_t remainder = 0; remainder < divisor_; ++remainder) {
      Signature signature{};
      signature[0] = class_of_[static_cast<std::size_t>(remainder)];
      for (std::int32_t digit = 0; digit < 10; ++digit) {
        signature[static_cast<std::size_t>(digit) + 1] = class_after(remainder, digit);
      }
      const auto [found, is_new] = numbers.try_emplace(signature, static_cast<std::int32_t>(numbers.size()));
      if (is_new) first_of_.push_back(remainder);
      refined.push_back(found->second);
    }
    class_of_ = std::move(refined);
  }

  std::int32_t divisor_;
  std::vector<std::int32_t> class_of_;  // [divisor], by remainder
  std::vector<std::int32_t> first_of_;  // the least remainder of each class
};

class NumberRule {
 public:
  NumberRule(const NumberShape& shape, AutomatonBudget& budget) : shape_(shape) {
    const auto& [integer, low, high, multiple_of] = shape;
    if (multiple_of) {
      remainders_.emplace(multiple_of->digits, budget);
      most_fraction_ = multiple_of->n_fraction;
      most_whole_ = NumberShape::kMostDigitsOfMultiple - most_fraction_;
    }
    positive_.possible = !high || !high->value.negative;
    if (low && !low->value.negative) positive_.low = &*low;
    if (high) positive_.high = &*high;
    // -x is in [low, high] when x is in [-high, -low].
    negative_.possible = !low || low->value.negative;
    if (low) negative_.high = &*low;
    if (high && (high->value.negative || high->value.is_zero())) negative_.low = &*high;
  }

  std::optional<State> step(State state, std::uint8_t byte) const {
    const bool digit = byte >= '0' && byte <= '9';
    switch (state.phase) {
      case Phase::kStart:
        if (byte == '-') return State{Phase::kMinus, true};
        [[fallthrough]];
      case Phase::kMinus:
        return digit && of(state).possible ? std::optional(first_digit(state, byte)) : std::nullopt;
      case Phase::kZero:
      case Phase::kWhole:
        if (digit) return state.phase == Phase::kWhole ? whole_digit(state, byte) : std::nullopt;
        return after_whole(state, byte);
      case Phase::kPoint:
      case Phase::kFraction:
        if (digit) return fraction_digit(state, byte);
        return state.phase == Phase::kFraction ? exponent(state, byte) : std::nullopt;
      case Phase::kE:
        if (byte == '+' || byte == '-') return State{Phase::kExponentSign};
        [[fallthrough]];
      case Phase::kExponentSign:
      case Phase::kExponent:
        if (!digit || state.n_digits == kMostExponentDigits) return std::nullopt;
        return State{Phase::kExponent, false, state.n_digits + 1};
    }
    return std::nullopt;
  }

  bool accepts(const State& state) const {
    switch (state.phase) {
      case Phase::kZero:
      case Phase::kWhole:
        return is_within(close_whole(state), 0) && is_multiple(state, 0);
      case Phase::kFraction:
        return is_within(state, static_cast<std::size_t>(state.n_digits)) && is_multiple(state, state.n_digits);
      case Phase::kExponent:
        return true;
      default:
        return false;
    }
  }

 private:
  const Magnitudes& of(const State& state) const { return state.negative ? negative_ : positive_; }

  State first_digit(State state, std::uint8_t byte) const {
    state.phase = byte == '0' ? Phase::kZero : Phase::kWhole;
    state.n_digits = 0;
    return byte == '0' ? state : *whole_digit(state, byte);
  }

  std::optional<State> whole_digit(State state, std::uint8_t byte) const {
    if (state.n_digits == most_whole_) return std::nullopt;
    if (remainders_) state.remainder = remainders_->read(state.remainder, byte);
    const auto place = static_cast<std::size_t>(state.n_digits++);
    const auto follow = [&](const NumberShape::Limit* limit, Order& order) {
      if (limit == nullptr || order != Order::kEqual || place >= limit->value.whole.size()) return;
      order = compare(static_cast<char>(byte), limit->value.whole[place]);
    };
    follow(of(state).low, state.low);
    follow(of(state).high, state.high);
    return state;
  }

  // A number with more digits before the point is larger, whatever they are.
  State close_whole(State state) const {
    const auto n = static_cast<std::size_t>(state.n_digits);
    const auto settle = [n](const NumberShape::Limit* limit, Order& order) {
      if (limit == nullptr || n == limit->value.whole.size()) return;
      order = n < limit->value.whole.size() ? Order::kLess : Order::kGreater;
    };
    settle(of(state).low, state.low);
    settle(of(state).high, state.high);
    return state;
  }

  std::optional<State> after_whole(const State& state, std::uint8_t byte) const {
    if (byte != '.' || shape_.integer || most_fraction_ == 0) return exponent(state, byte);
    State next = close_whole(state);
    next.phase = Phase::kPoint;
    next.n_digits = 0;
    return next;
  }

  std::optional<State> fraction_digit(State state, std::uint8_t byte) const {
    if (state.n_digits == most_fraction_) return std::nullopt;
    if (remainders_) state.remainder = remainders_->read(state.remainder, byte);
    const auto place = static_cast<std::size_t>(state.n_digits++);
    const auto follow = [&](const NumberShape::Limit* limit, Order& order) {
      if (limit == nullptr || order != Order::kEqual) return;
      const std::string& digits = limit->value.fraction;
      order = compare(static_cast<char>(byte), place < digits.size() ? digits[place] : '0');
    };
    follow(of(state).low, state.low);
    follow(of(state).high, state.high);
    state.phase = Phase::kFraction;
    return state;
  }

  std::optional<State> exponent(const State& /*state*/, std::uint8_t byte) const {
    const bool plain = shape_.integer || shape_.low || shape_.high || shape_.multiple_of;
    if (plain || (byte != 'e' && byte != 'E')) return std::nullopt;
    return State{Phase::kE};
  }

  // `n_fraction` digits after the point were compared; a limit with more digits is larger.
  bool is_within(const State& state, std::size_t n_fraction) const {
    const auto order_to = [n_fraction](const NumberShape::Limit& limit, Order order) {
      return order == Order::kEqual && n_fraction < limit.value.fraction.size() ? Order::kLess : order;
    };
    const auto& [possible, low, high] = of(state);
    if (low != nullptr) {
      const Order order = order_to(*low, state.low);
      if (order == Order::kLess || (order == Order::kEqual && low->exclusive)) return false;
    }
    if (high != nullptr) {
      const Order order = order_to(*high, state.high);
      if (order == Order::kGreater || (order == Order::kEqual && high->exclusive)) return false;
    }
    return possible;
  }

  // Unwritten digits after the point are zeros.
  bool is_multiple(const State& state, std::int32_t n_fraction) const {
    if (!remainders_) return true;
    std::int32_t remainder = state.remainder;
    for (std::int32_t i = n_fraction; i < most_fraction_; ++i) remainder = remainders_->read(remainder, '0');
    return remainder == 0;
  }

  const NumberShape& shape_;
  std::optional<Remainders> remainders_;
  std::int32_t most_whole_ = NumberShape::kMostDigits, most_fraction_ = NumberShape::kMostDigits;
  Magnitudes positive_, negative_;
};

}  // namespace

std::optional<Decimal> parse_decimal(const std::string& text) {
  Decimal decimal;
  decimal.negative = text.front() == '-';
  const std::size_t first = decimal.negative ? 1 : 0;
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.find('.'), e);
  std::string digits = text.substr(first, point - first);
  auto whole_digits = static_cast<std::int32_t>(digits.size());
  if (point < e) digits += text.substr(point + 1, e - point - 1);
  if (e < text.size()) {
    const char* begin = text.data() + e + 1;
    if (*begin == '+') ++begin;
    std::int32_t exponent = 0;
    if (std::from_chars(begin, text.data() + text.size(), exponent).ec != std::errc()) return std::nullopt;
    whole_digits += exponent;
  }
  const auto leading = static_cast<std::int32_t>(std::min(digits.find_first_not_of('0'), digits.size()));
  digits.erase(0, static_cast<std::size_t>(leading));
  whole_digits -= leading;
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  if (digits.empty()) return Decimal{};
  const auto n = static_cast<std::int32_t>(digits.size());
  if (whole_digits > NumberShape::kMostDigits || n - whole_digits > NumberShape::kMostDigits) return std::nullopt;
  if (whole_digits < 0) digits.insert(0, static_cast<std::size_t>(-whole_digits), '0');
  if (whole_digits > n) digits.append(static_cast<std::size_t>(whole_digits - n), '0');
  const auto border = static_cast<std::size_t>(std::max(whole_digits, 0));
  decimal.whole = digits.substr(0, border);
  decimal.fraction = digits.substr(border);
  return decimal;
}

std::optional<NumberShape::Divisor> divisor_of(const Decimal& value) {
  const std::string digits = value.whole + value.fraction;
  const auto n_fraction = static_cast<std::int32_t>(value.fraction.size());
  std::int32_t number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) return std::nullopt;
  if (number > NumberShape::Divisor::kMostDigits || n_fraction > NumberShape::Divisor::kMostFraction) {
    return std::nullopt;
  }
  return NumberShape::Divisor{number, n_fraction};
}

ByteAutomaton number_automaton(const NumberShape& shape, AutomatonBudget& budget) {
  ByteClasses classes;
  for (const char one : {'+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'E', 'e'}) {
    classes.cut(static_cast<std::uint8_t>(one), static_cast<std::uint8_t>(one));
  }
  const NumberRule rule(shape, budget);
  return explore(
      classes, State{}, [&](const State& state, std::uint8_t byte) { return rule.step(state, byte); },
      [&](const State& state) { return rule.accepts(state); }, budget);
}

}  // namespace slip
