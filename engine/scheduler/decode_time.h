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

// Average number of tokens that one verification commits, for a chain of `k` tokens and acceptance rate `alpha` in [0,
// 1]: equation 1 of Leviathan et al. (2023).
double accepted_length(int k, double alpha);

// The value of a better draft under the current load. Plain data.
struct DecodeTime {
  static constexpr std::size_t kPoints = 11;

  // For a target whose pass takes the same time for any number of rows.
  static DecodeTime of_chain(int k);

  // The share of the service's time, 0 to 1, that is saved if the acceptance rate of all sequences rises from `alpha`
  // by `gain` ≥ 0. The effect of one sequence's gain counts once for each sequence.
  double saved(double alpha, double gain) const;

  std::array<double, kPoints> per_token{};  // [i]: relative time per token of a step if one sequence's acceptance rate
                                            // is i / 10
  double sequences = 1;                     // sequences per step
  double share = 1;                         // share of the service's time spent on decoding, 0 to 1
};

// Learns a DecodeTime from the engine's steps. Each acceptance rate i / 10 is evaluated for one of the step's
// sequences, with the others unchanged: where further rows cost time, a better draft takes them from the other
// sequences. Threads: one owner.
class DecodeTimeEstimate {
 public:
  // Adds one decoding step with `outlooks`, at least one; `curve` gives the times of its passes. A draft proposes at
  // most `k` tokens. Cost: kPoints calls of choose_draft_lengths().
  void add(const StepCurve& curve, std::span<const DraftOutlook> outlooks, std::int32_t k);
  const DecodeTime& time() const { return time_; }  // REQUIRES: add() was called

 private:
  std::size_t n_ = 0;
  DecodeTime time_;
  std::vector<DraftOutlook> outlooks_;
  std::vector<DraftLength> lengths_;
};

// Passes the latest DecodeTime from one thread to any other. Nothing blocks. A reader may see parts of two updates,
// which differ by a few per cent.
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
