// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace slip {

// Time of a decoding step by the rows of its target pass, and of one depth of drafting.
struct StepCurve {
  static constexpr std::int32_t kRows = 128;

  // µs of a pass over `rows` ≥ 0 rows; beyond kRows along a line.
  double pass_us(std::int32_t rows) const;

  std::array<double, kRows> us{};  // us[r − 1] of r rows, never descending
  double more_row_us = 0;          // of each row beyond kRows
  double depth_us = 0;
};

// Learns a StepCurve from the engine's own steps. A pass takes the same time for any few rows while memory bounds it,
// and jumps where another tile of rows begins (on AVX2: 1 to 4 rows alike, 6 at 1.4 and 8 at 1.8 times that), so each
// number of rows is measured by itself. All times are ratios to a level that follows the last few passes: contexts and
// load cancel out. Rows that three passes did not have are guessed from their neighbours, a little too low, so that
// they are tried; the fastest of the three is what counts, since one slow pass would keep a number of rows from being
// tried. Threads: one owner.
class StepCurveEstimate {
 public:
  // A target pass over `rows` rows, without prompts, behind drafting to `depth`.
  void add(std::int32_t rows, double verify_us, std::int32_t depth, double draft_us);
  // False until a few passes are known; then curve() means nothing.
  bool known() const { return n_ >= kLeast; }
  // Cost: O(kRows).
  StepCurve curve() const;

 private:
  static constexpr std::int64_t kLeast = 8;
  // Time over the level, of passes with as many rows.
  struct Ratio {
    double value = 0, weight = 0;  // weight 0: no such pass lately
    std::int32_t n = 0;            // passes since there were none
    bool measured() const;
    void add(double sample);
  };
  // Of all numbers of rows: measured, or guessed.
  std::array<double, StepCurve::kRows> ratios() const;

  std::int64_t n_ = 0;
  double level_us_ = 0, depth_us_ = 0;
  std::array<Ratio, StepCurve::kRows> ratios_{};
};

}  // namespace slip
