// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace slip {

// The time of drafting, as a line over its passes. All times are in µs.
struct DraftTime {
  // The first draft pass takes longer by this: it finds the weights in memory, not in a cache, and threads asleep.
  double begin_us = 0;
  double pass_us = 0;  // one draft pass, which adds one token to the proposal of each sequence

  double us(std::int32_t passes) const { return passes <= 0 ? 0 : begin_us + pass_us * passes; }
};

// The predicted time of a decoding step: the target pass as a function of its rows, plus drafting as a function of its
// passes. All times are in µs.
struct StepCurve {
  static constexpr std::int32_t kRows = 128;

  // Time of a target pass over `rows` ≥ 0 rows; 0 rows take no time.
  double pass_us(std::int32_t rows) const;
  // The time that a row costs around `rows`: the average over four rows less and four more.
  double row_us(std::int32_t rows) const;
  // The least time that one more row costs after `rows`, as an average over up to eight more rows.
  double least_row_us(std::int32_t rows) const;

  std::array<double, kRows> us{};  // us[r − 1]: pass over r rows; never descending
  double more_row_us = 0;          // added for each row beyond kRows: the slope of the last half
  DraftTime drafting;
};

// What a StepCurveEstimate measured, for another process to begin with. All times are in µs.
struct StepCurveState {
  double level_us = 0;       // more than 0
  double prompt_row_us = 0;  // 0: no pass over prompts was measured
  DraftTime drafting;
  std::map<std::int32_t, double> ratios;  // to the level, of the row counts that are measured, 1 … StepCurve::kRows
};

// The states of both estimates of an engine; empty: not measured.
struct StepCurves {
  std::optional<StepCurveState> unleased, leased;  // of steps without and with a lease
};

// Fits a DraftTime: least squares with exponential forgetting, pulled towards a line through 0 while the numbers of
// passes hardly vary. Threads: one owner.
class DraftTimeEstimate {
 public:
  // Begins with a line that was measured before. It counts as eight draftings.
  explicit DraftTimeEstimate(const DraftTime& line = {});
  // Adds a drafting of `us` µs and `passes` ≥ 1. At most twice the expected time counts, since the drafting may have
  // been interrupted.
  void add(std::int32_t passes, double us);
  DraftTime line() const;  // both parts are 0 or more; 0 until something was added

 private:
  double n_ = 0, passes_ = 0, us_ = 0, passes_passes_ = 0,
         passes_us_ = 0;  // sums over the draftings, and over products
};

// Learns a StepCurve from the engine's own steps. Threads: one owner.
//
// The time of a pass is constant for a few rows, where memory bandwidth limits it, and jumps where another tile of rows
// begins. On AVX2, 1 to 4 rows take the same time, 6 take 1.4 and 8 take 1.8 times that. So each row count is measured
// by itself. A measurement is stored as a ratio to the level, a moving average over the last passes of all row counts.
// A longer context or a busier machine moves the level and leaves the ratios alone.
//
// A row count needs three passes to count as measured; the fastest of these three is its first value. The time of any
// other row count is interpolated between measured ones and lowered by up to 5 %, so that it is tried. But a guess is
// never below the roofline: passes that read prompts show what the arithmetic of a row takes at least. Without it, a
// server that starts into a burst would take rows beyond the first measured ones for nearly free.
class StepCurveEstimate {
 public:
  // Begins with what another estimate measured, known() at once. Each of its ratios counts as two passes, so that new
  // passes soon outweigh it. REQUIRES: the ranges that StepCurveState states.
  explicit StepCurveEstimate(const std::optional<StepCurveState>& measured = {});
  std::optional<StepCurveState> state() const;  // empty until known()

  // Adds one step that read no prompt: a target pass of `verify_us` µs over `rows` rows, after `draft_us` µs of
  // drafting with `draft_passes` passes. The target's pass is ignored if it has more than StepCurve::kRows rows.
  void add(std::int32_t rows, double verify_us, std::int32_t draft_passes, double draft_us);
  // Adds a step that read prompts: a target pass of `verify_us` µs over `rows` rows. Passes of fewer rows than half of
  // StepCurve::kRows are ignored, since memory surely bounds many of them.
  void add_prompts(std::int32_t rows, double verify_us);
  // False until 16 passes were added, if it did not begin with a state; curve() is meaningless until then. The first
  // eight passes are not counted: they touch memory for the first time.
  bool known() const { return n_ >= kLeast; }
  // Cost: O(kRows).
  StepCurve curve() const;

 private:
  static constexpr std::int64_t kCold = 8, kLeast = 8;
  // Time of passes of one row count, as a multiple of level_us_.
  struct Ratio {
    double value = 0, weight = 0;  // weight: number of passes, decayed with each pass of any row count
    std::int32_t n = 0;            // passes since the ratio was last reset
    bool measured() const;
    void add(double sample);
  };
  // The ratios of all row counts, measured or guessed; guessed_ratios() from those that are measured alone.
  std::array<double, StepCurve::kRows> ratios() const;
  std::array<double, StepCurve::kRows> guessed_ratios() const;
  double least_ratio(std::size_t rows) const;

  std::int64_t n_added_ = 0, n_ = 0;  // passes; those that count, kLeast with a state
  double level_us_ = 0;
  double row_us_ = 0;  // of a row in the latest passes over prompts, the least; 0: none was added
  DraftTimeEstimate drafting_;
  std::array<Ratio, StepCurve::kRows> ratios_{};
};

}  // namespace slip
