// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace slip {

// A token bucket of time: it gains `rate` seconds per second, up to `burst_us`, and starts full. Spending may overdraw
// it by up to `burst_us`, so one long unit is paid back later; a debt beyond that is forgiven. Pure.
class TimeBudget {
 public:
  TimeBudget(double rate, std::int64_t burst_us, std::int64_t now_us)
      : rate_(rate), burst_us_(static_cast<double>(burst_us)), balance_us_(rate > 0 ? burst_us_ : 0), at_us_(now_us) {}

  void refill(std::int64_t now_us) noexcept {
    balance_us_ = std::min(balance_us_ + rate_ * static_cast<double>(std::max<std::int64_t>(now_us - at_us_, 0)),
                           rate_ > 0 ? burst_us_ : 0);
    at_us_ = now_us;
  }
  void spend(std::int64_t us) noexcept { balance_us_ = std::max(balance_us_ - static_cast<double>(us), -burst_us_); }
  bool any_left() const noexcept { return balance_us_ > 0; }
  // Overdrawn by at least half of the permitted amount, so that one more unit can still be paid back.
  bool exhausted() const noexcept { return balance_us_ <= -burst_us_ / 2; }

 private:
  double rate_, burst_us_, balance_us_;
  std::int64_t at_us_;
};

}  // namespace slip
