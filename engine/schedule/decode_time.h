// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/schedule/step_curve.h"

namespace slip {

// Tokens that one verification commits on average, with a chain of `k` and acceptance rate `alpha` in [0, 1]: equation
// 1 of Leviathan et al. (2023).
double accepted_length(int k, double alpha);

// What a better draft is worth under the load at hand. Plain data.
struct DecodeTime {
  static constexpr std::size_t kPoints = 11;

  // Where every pass takes as long, however many rows it has.
  static DecodeTime of_chain(int k);
  // Where passes take what was measured, each of `n` ≥ 1 sequences drafts at most `k`, and all drafts are alike.
  static DecodeTime of_curve(const StepCurve& curve, std::int32_t n, std::int32_t k);

  // The share of the service's time, 0 to 1, that is saved if drafts accept `gain` ≥ 0 more than `alpha`.
  double saved(double alpha, double gain) const;

  std::array<double, kPoints> per_token{};  // [i]: relative time of a token at acceptance rate i / 10
  double share = 1;                         // of the service's time that goes into decoding, 0 to 1
};

// The latest DecodeTime, from one thread to any. Nothing blocks; a reader may see parts of two updates, which differ by
// a few per cent.
class SharedDecodeTime {
 public:
  SharedDecodeTime() { set(DecodeTime::of_chain(3)); }
  void set(const DecodeTime& time) noexcept;
  DecodeTime get() const noexcept;

 private:
  std::array<std::atomic<double>, DecodeTime::kPoints + 1> values_;
};

}  // namespace slip
