// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// The rows of prompts that a step may read in any case: a pass takes about as long with them as without.
inline constexpr std::int32_t kLeastPromptRows = 8;

// Learns what a row of a prompt adds to the time of a step: time over rows, of sums with exponential forgetting. So a
// step counts by its rows. A mean of the steps' own ratios would follow those with few rows, where noise is largest.
// Threads: one owner.
class PromptTimeEstimate {
 public:
  // A pass over fewer rows takes about as long as one over a single row.
  static constexpr std::int32_t kRowsWorthMeasuring = 16;

  // `keep`: the share of the sums that each step leaves, 0 to 1.
  explicit PromptTimeEstimate(double keep) : keep_(keep) {}

  // Adds a step that read `rows` > 0 rows of prompts and took `more_us` longer than it is predicted to take without
  // them; less than 0 where it was faster. `decodes`: it had other rows too. Otherwise it is ignored if it has fewer
  // rows than kRowsWorthMeasuring.
  void add(std::int32_t rows, double more_us, bool decodes);
  bool known() const { return rows_ > 0; }
  double row_us() const;  // in µs; 0: unknown, or nothing
  // Rows that make a step longer by at most `us`: at least kLeastPromptRows, so that prompts end, and at most `most`.
  // Returns `most` while the time of a row is unknown.
  std::int32_t rows_within(double us, std::int32_t most) const;

 private:
  double keep_;
  double us_ = 0, rows_ = 0;  // the sums
};

}  // namespace slip
