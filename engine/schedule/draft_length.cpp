// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/draft_length.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace slip {

namespace {

constexpr double kKeep = 0.98;              // of a step's weight, each later step
constexpr double kPriorRowShare = 0.04;     // of the mean time: what a row more is taken to cost until rows have varied
constexpr double kPriorWeight = 4;          // of that, in rows²
constexpr double kKeepVerification = 0.98;  // half forgotten after 34 verifications
constexpr double kKeepVersion = 0.02;
constexpr double kPriorAlpha = 0.5, kPriorJudged = 2;
constexpr double kMostAlpha = 0.99;

}  // namespace

void StepLineEstimate::add(std::int32_t rows, double verify_us, std::int32_t depth, double draft_us) {
  if (!(verify_us > 0) || rows < 1) return;
  ++n_;
  const double x = rows;
  weight_ = kKeep * weight_ + 1;
  rows_ = kKeep * rows_ + x;
  time_ = kKeep * time_ + verify_us;
  rows_rows_ = kKeep * rows_rows_ + x * x;
  rows_time_ = kKeep * rows_time_ + x * verify_us;
  if (depth > 0) {
    const double each = draft_us / depth;
    depth_us_ = depth_us_ == 0 ? each : kKeep * depth_us_ + (1 - kKeep) * each;
  }
}

StepLine StepLineEstimate::line() const {
  const double mean_rows = rows_ / weight_, mean_time = time_ / weight_;
  const double spread = rows_rows_ / weight_ - mean_rows * mean_rows;
  const double together = rows_time_ / weight_ - mean_rows * mean_time;
  const double prior = kPriorRowShare * mean_time / (1 + kPriorRowShare * mean_rows);
  const double weighted = kPriorWeight / weight_;
  const double slope = (together + weighted * prior) / (std::max(spread, 0.0) + weighted);
  StepLine line;
  line.row_us = std::clamp(slope, 0.0, mean_time / mean_rows);
  line.fixed_us = mean_time - line.row_us * mean_rows;
  line.depth_us = depth_us_;
  return line;
}

void AcceptanceEstimate::add(std::uint64_t version, std::int32_t accepted, bool rejected) {
  const double keep = version == version_ ? kKeepVerification : kKeepVersion;
  version_ = version;
  accepted_ = keep * accepted_ + accepted;
  judged_ = keep * judged_ + accepted + (rejected ? 1 : 0);
}

double AcceptanceEstimate::alpha(std::uint64_t version) const {
  const double keep = version == version_ ? 1 : kKeepVersion;
  const double alpha = (keep * accepted_ + kPriorAlpha * kPriorJudged) / (keep * judged_ + kPriorJudged);
  return std::min(alpha, kMostAlpha);
}

void choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepLine& line,
                          std::vector<std::int32_t>& lengths) {
  lengths.assign(outlooks.size(), 0);
  if (outlooks.empty()) return;
  const auto n = static_cast<double>(outlooks.size());
  // Sequences of one depth share its drafting passes.
  const double node_us = line.row_us + line.depth_us / n;
  double tokens = n;
  double time_us = line.fixed_us + line.row_us * (n + prompt_rows);
  for (;;) {
    std::size_t best = outlooks.size();
    double best_tokens = 0;
    for (std::size_t i = 0; i < outlooks.size(); ++i) {
      if (lengths[i] >= outlooks[i].most) continue;
      const double expected = std::pow(outlooks[i].alpha, lengths[i] + 1);
      if (best == outlooks.size() || expected > best_tokens) best = i, best_tokens = expected;
    }
    if (best == outlooks.size() || best_tokens * time_us <= tokens * node_us) break;
    ++lengths[best];
    tokens += best_tokens;
    time_us += node_us;
  }
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    if (outlooks[i].probe && outlooks[i].most > 0) lengths[i] = std::max(lengths[i], 1);
  }
}

}  // namespace slip
