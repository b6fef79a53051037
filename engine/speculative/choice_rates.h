// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/proposal.h"

namespace slip {

// By rank: P(a choice for a place is right | the place is reached, and the choices before it are wrong).
using RankRates = std::array<double, kMaxTreeWidth>;
// Before any choice was seen; high enough to be tried.
inline constexpr RankRates kPriorRankRates = {0.5, 0.35, 0.25, 0.2};

// How often a draft's first, second … choice for one place was right, given that the choices before it were wrong. They
// are kept apart by the probability that the draft gave its first choice, which is known before a sibling is drawn:
// keeping siblings by their own probability would bias the rejection rule. Threads: one owner.
class ChoiceRates {
 public:
  ChoiceRates() = default;
  // Rates that depend on the rank alone and never change.
  explicit ChoiceRates(const RankRates& by_rank) : by_rank_(by_rank) {}
  // Whether they depend on the rank alone. A tree that grows by such rates has a shape that no drafted token changes.
  bool is_by_rank() const { return by_rank_.has_value(); }
  // `first_log_q`: that of the first choice. `rank`: 0 is the first choice. REQUIRES: !is_by_rank().
  void add(double first_log_q, std::int32_t rank, bool was_right);
  double rate(double first_log_q, std::int32_t rank) const;
  // The greatest probability that any second choice is reached and right.
  double most_of_second() const;

 private:
  static constexpr std::size_t kClasses = 10;
  static std::size_t class_of(double first_log_q);
  double rate_of(std::size_t kind, std::int32_t rank) const;
  std::optional<RankRates> by_rank_;
  std::array<std::array<HitRate, kMaxTreeWidth>, kClasses> rates_;
};

}  // namespace slip
