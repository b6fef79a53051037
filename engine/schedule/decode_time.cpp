// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/decode_time.h"

#include <algorithm>

namespace slip {

double accepted_length(int k, double alpha) {
  double length = 1, power = 1;
  for (int depth = 1; depth <= k; ++depth) {
    power *= alpha;
    length += power;
  }
  return length;
}

DecodeTime DecodeTime::of_chain(int k) {
  DecodeTime time;
  for (std::size_t i = 0; i < kPoints; ++i) time.per_token[i] = 1 / accepted_length(k, static_cast<double>(i) / 10);
  return time;
}

DecodeTime DecodeTime::of_curve(const StepCurve& curve, std::int32_t n, std::int32_t k) {
  DecodeTime time;
  for (std::size_t i = 0; i < kPoints; ++i) {
    double& least = time.per_token[i];
    for (std::int32_t length = 0; length <= k; ++length) {
      const double step_us = curve.pass_us(n * (1 + length)) + curve.depth_us * length;
      const double per_token = step_us / accepted_length(length, static_cast<double>(i) / 10);
      least = length == 0 ? per_token : std::min(least, per_token);
    }
  }
  return time;
}

double DecodeTime::saved(double alpha, double gain) const {
  const auto at = [&](double rate) {
    const double x = std::clamp(rate, 0.0, 1.0) * (kPoints - 1);
    const auto i = std::min(static_cast<std::size_t>(x), kPoints - 2);
    return per_token[i] + (x - static_cast<double>(i)) * (per_token[i + 1] - per_token[i]);
  };
  const double before = at(alpha);
  return before > 0 ? share * (1 - at(alpha + gain) / before) : 0;
}

void SharedDecodeTime::set(const DecodeTime& time) noexcept {
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    values_[i].store(time.per_token[i], std::memory_order_relaxed);
  }
  values_.back().store(time.share, std::memory_order_relaxed);
}

DecodeTime SharedDecodeTime::get() const noexcept {
  DecodeTime time;
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    time.per_token[i] = values_[i].load(std::memory_order_relaxed);
  }
  time.share = values_.back().load(std::memory_order_relaxed);
  return time;
}

}  // namespace slip
