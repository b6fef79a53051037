// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/proposal.h"

namespace slip {

// How often a draft's first, second … choice for one place was right, given that the choices before it were wrong. They
// are kept apart by the probability that the draft gave its first choice, which is known before a sibling is drawn:
// keeping siblings by their own probability would bias the rejection rule. Threads: one owner.
class ChoiceRates {
 public:
  // `first_log_q`: that of the first choice. `rank`: 0 is the first choice.
  void add(double first_log_q, std::int32_t rank, bool was_right);
  double rate(double first_log_q, std::int32_t rank) const;
  // The greatest probability that any second choice is reached and right.
  double most_of_second() const;

 private:
  static constexpr std::size_t kClasses = 10;
  static std::size_t class_of(double first_log_q);
  double rate_of(std::size_t kind, std::int32_t rank) const;
  std::array<std::array<HitRate, kMaxTreeWidth>, kClasses> rates_;
};

}  // namespace slip
