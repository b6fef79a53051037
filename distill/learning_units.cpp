// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_units.h"

namespace slip {
namespace {

constexpr std::int64_t kScoringBurstUs = 200'000;  // a dozen passes

}  // namespace

LearningUnits::LearningUnits(CoreSharing* cores, std::int64_t (*now_us)())
    : cores_(cores), now_us_(now_us), guaranteed_(kScoringShare, kScoringBurstUs, now_us()) {}

bool LearningUnits::grant() noexcept {
  return begin(/*with_lease=*/!engine_idle());
}

bool LearningUnits::grant_gaps() noexcept {
  return begin(/*with_lease=*/false);
}

bool LearningUnits::begin(bool with_lease) noexcept {
  settle();
  reason_ = "";
  if (cores_ != nullptr) cores_->begin_unit(with_lease);
  return true;
}

bool LearningUnits::grant_guaranteed() noexcept {
  settle();  // the last unit may have used up the share
  const std::int64_t now = now_us_();
  guaranteed_.refill(now);
  if (!guaranteed_.any_left()) return false;
  grant();
  guaranteed_since_us_ = now;
  return true;
}

bool LearningUnits::refuse(const char* reason) noexcept {
  reason_ = reason;
  return false;
}

void LearningUnits::done() noexcept {
  if (cores_ != nullptr) cores_->end_unit();
  settle();
}

void LearningUnits::settle() noexcept {
  if (guaranteed_since_us_ >= 0) guaranteed_.spend(now_us_() - guaranteed_since_us_);
  guaranteed_since_us_ = -1;
  if (cores_ != nullptr) take_sample();
}

std::int64_t LearningUnits::take_cost_us() noexcept {
  if (cores_ == nullptr) return 0;
  const std::int64_t cost_us = cores_->totals().cost_us, before = cost_taken_us_;
  cost_taken_us_ = cost_us;
  return cost_us - before;
}

LearningUnits::Sample LearningUnits::take_sample() const noexcept {
  const Sample now{now_us_(), cores_->totals()};
  samples_.add(now);
  return now;
}

LearningUnits::Sample LearningUnits::last_minute() const noexcept {
  if (cores_ == nullptr) return {};
  const auto [at_us, totals] = take_sample();
  const Sample& oldest = samples_.oldest();
  return {at_us - oldest.at_us,
          {totals.busy_us - oldest.totals.busy_us, totals.leased_us - oldest.totals.leased_us,
           totals.cost_us - oldest.totals.cost_us, totals.committed - oldest.totals.committed}};
}

double LearningUnits::share_of_service() const noexcept {
  const Sample minute = last_minute();
  if (minute.totals.busy_us <= 0) return 0;
  return static_cast<double>(minute.totals.cost_us) / static_cast<double>(minute.totals.busy_us);
}

// The tokens that the engine would have generated in the time that learning cost.
double LearningUnits::cost_tokens_per_s() const noexcept {
  const Sample minute = last_minute();
  const auto useful_us = static_cast<double>(minute.totals.busy_us - minute.totals.cost_us);
  if (useful_us <= 0 || minute.at_us <= 0) return 0;
  const double lost =
      static_cast<double>(minute.totals.committed) / useful_us * static_cast<double>(minute.totals.cost_us);
  return lost / (static_cast<double>(minute.at_us) * 1e-6);
}

}  // namespace slip
