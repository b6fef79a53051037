// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/choice_rates.h"

#include <algorithm>
#include <cmath>

#include "engine/speculative/untested_choice.h"

namespace slip {

std::size_t ChoiceRates::class_of(double first_log_q) {
  const double q = std::clamp(std::exp(first_log_q), 0.0, 1.0);
  return std::min(static_cast<std::size_t>(q * kClasses), kClasses - 1);
}

// A first choice starts with its own probability.
double ChoiceRates::rate_of(std::size_t kind, std::int32_t rank) const {
  const auto at = static_cast<std::size_t>(rank);
  if (by_rank_) return (*by_rank_)[at];
  return rates_[kind][at].rate(rank == 0 ? (static_cast<double>(kind) + 0.5) / kClasses : kPriorRankRates[at]);
}

// A choice that is no longer proposed loses its evidence slowly.
void ChoiceRates::add(double first_log_q, std::int32_t rank, bool was_right) {
  auto& of_class = rates_[class_of(first_log_q)];
  const auto at = static_cast<std::size_t>(rank);
  of_class[at].add(was_right);
  if (!was_right && at + 1 < of_class.size()) forget_untested(of_class[at + 1]);
}

double ChoiceRates::rate(double first_log_q, std::int32_t rank) const {
  return rate_of(class_of(first_log_q), rank);
}

double ChoiceRates::most_of_second() const {
  double most = 0;
  for (std::size_t kind = 0; kind < kClasses; ++kind) most = std::max(most, (1 - rate_of(kind, 0)) * rate_of(kind, 1));
  return most;
}

}  // namespace slip
