// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace slip {

// An unsigned 64-bit size computed from untrusted integers. Once an operation overflows, underflows or sees a negative
// number, it stays invalid, so one check at the end covers a whole formula.
class CheckedSize {
 public:
  constexpr explicit CheckedSize(std::uint64_t value) : value_(value) {}
  static constexpr CheckedSize from_signed(std::int64_t value) {
    CheckedSize size(static_cast<std::uint64_t>(value));
    size.valid_ = value >= 0;
    return size;
  }

  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    std::uint64_t product = 0;
    const bool overflows = __builtin_mul_overflow(a.value_, b.value_, &product);
    return a.combined(b, !overflows, product);
  }
  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    std::uint64_t sum = 0;
    const bool overflows = __builtin_add_overflow(a.value_, b.value_, &sum);
    return a.combined(b, !overflows, sum);
  }
  friend constexpr CheckedSize operator-(CheckedSize a, CheckedSize b) {
    std::uint64_t difference = 0;
    const bool overflows = __builtin_sub_overflow(a.value_, b.value_, &difference);
    return a.combined(b, !overflows, difference);
  }

  constexpr bool valid() const { return valid_; }
  constexpr bool equals(std::uint64_t other) const { return valid_ && value_ == other; }
  constexpr std::uint64_t value_or_max() const { return valid_ ? value_ : std::numeric_limits<std::uint64_t>::max(); }

 private:
  constexpr CheckedSize combined(CheckedSize other, bool fits, std::uint64_t value) const {
    CheckedSize result(value);
    result.valid_ = valid_ && other.valid_ && fits;
    return result;
  }

  std::uint64_t value_ = 0;
  bool valid_ = true;
};

}  // namespace slip
