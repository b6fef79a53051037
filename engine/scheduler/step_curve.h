// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace slip {

// Time of a decoding step as a function of the rows of its target pass, and time of one depth of drafting.
struct StepCurve {
  static constexpr std::int32_t kRows = 128;

  // µs of a pass over `rows` ≥ 0 rows; linear beyond kRows.
  double pass_us(std::int32_t rows) const;

  std::array<double, kRows> us{};  // us[r − 1] for r rows, never descending
  double more_row_us = 0;          // for each row beyond kRows
  double depth_us = 0;
};

// Learns a StepCurve from the engine's own steps. The time of a pass is constant for a few rows, where memory bandwidth
// limits it, and jumps where another tile of rows begins. On AVX2, 1 to 4 rows take the same time, 6 take 1.4 and 8
// take 1.8 times that. So each row count is measured by itself. All times are ratios to a level that follows the last
// few passes, so that changes of context and load cancel out. The time of a row count with fewer than three passes is
// guessed from its neighbours, a little too low, so that it is tried. Of the first three passes the fastest counts: one
// slow pass must not keep a row count from being tried again. Threads: one owner.
class StepCurveEstimate {
 public:
  // Adds a target pass over `rows` rows without prompts, after drafting to `depth`.
  void add(std::int32_t rows, double verify_us, std::int32_t depth, double draft_us);
  // False until 8 passes are known; until then curve() is meaningless.
  bool known() const { return n_ >= kLeast; }
  // Cost: O(kRows).
  StepCurve curve() const;

 private:
  static constexpr std::int64_t kLeast = 8;
  // Time relative to the level, for passes of one row count.
  struct Ratio {
    double value = 0, weight = 0;  // weight 0: no recent pass
    std::int32_t n = 0;            // passes since the ratio was last reset
    bool measured() const;
    void add(double sample);
  };
  // The ratios of all row counts, measured or guessed.
  std::array<double, StepCurve::kRows> ratios() const;

  std::int64_t n_ = 0;
  double level_us_ = 0, depth_us_ = 0;
  std::array<Ratio, StepCurve::kRows> ratios_{};
};

}  // namespace slip
