// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/draft_length.h"
#include "engine/scheduler/step_curve.h"

namespace slip {

// Tokens that one verification commits on average, with a chain of `k` and acceptance rate `alpha` in [0, 1]: equation
// 1 of Leviathan et al. (2023).
double accepted_length(int k, double alpha);

// What a better draft is worth under the load at hand. Plain data.
struct DecodeTime {
  static constexpr std::size_t kPoints = 11;

  // Where every pass takes as long, however many rows it has.
  static DecodeTime of_chain(int k);

  // The share of the service's time, 0 to 1, that is saved if the draft of all sequences accepts `gain` ≥ 0 more than
  // `alpha`. What the gain of one sequence brings is brought by each.
  double saved(double alpha, double gain) const;

  std::array<double, kPoints> per_token{};  // [i]: relative time of a step's token if one sequence accepts i / 10
  double sequences = 1;                     // of a step
  double share = 1;                         // of the service's time that goes into decoding, 0 to 1
};

// Learns a DecodeTime from the engine's steps. A draft of acceptance rate i / 10 is tried in the place of one of a
// step's sequences, beside the others as they are: where rows beyond a few cost time, a better draft takes them from
// the others. Threads: one owner.
class DecodeTimeEstimate {
 public:
  // A decoding step of `outlooks`, at least one, whose passes take what `curve` says; a draft proposes at most `k`
  // tokens. Cost: that of kPoints draft length choices.
  void add(const StepCurve& curve, std::span<const DraftOutlook> outlooks, std::int32_t k);
  const DecodeTime& time() const { return time_; }  // REQUIRES: add() was called

 private:
  std::size_t n_ = 0;
  DecodeTime time_;
  std::vector<DraftOutlook> outlooks_;
  std::vector<std::int32_t> lengths_;
};

// The latest DecodeTime, from one thread to any. Nothing blocks; a reader may see parts of two updates, which differ by
// a few per cent.
class SharedDecodeTime {
 public:
  SharedDecodeTime() { set(DecodeTime::of_chain(3)); }
  void set(const DecodeTime& time) noexcept;
  DecodeTime get() const noexcept;

 private:
  std::array<std::atomic<double>, DecodeTime::kPoints> per_token_;
  std::atomic<double> sequences_, share_;
};

}  // namespace slip
