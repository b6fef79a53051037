// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/deadlines.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "engine/scheduler/prompt_time.h"

namespace slip {
namespace {

constexpr std::int64_t kPatienceUs = 5'000'000;
constexpr double kWorthWhenLate = 4;
constexpr std::int32_t kSoonTokens = 16;
constexpr double kStepsInHand = 4;

bool has_pace(const DeadlineLoad& load) {
  return load.n_pending == 1 && load.slo.tpot_us > 0;
}

// Of the sequences that can be on time; infinite without one.
double least_slack_soon_us(std::span<const DeadlineLoad> loads, const StepForecast& forecast) {
  double least_us = std::numeric_limits<double>::infinity();
  for (const DeadlineLoad& load : loads) {
    if (has_pace(load) && can_be_on_time(load, forecast)) least_us = std::min(least_us, slack_soon_us(load, forecast));
  }
  return least_us;
}

// Whether the prompt must be read at once: it has waited for long, or its target leaves little more time than that
// takes.
bool is_pressing(const DeadlineLoad& load, const StepForecast& forecast) {
  if (load.n_pending <= 1) return false;
  if (load.since_us >= kPatienceUs) return true;
  if (load.slo.ttft_us == 0) return false;
  const double needed_us = load.n_pending * forecast.prompt_row_us + forecast.decode_us;
  return static_cast<double>(load.since_us) + 2 * needed_us >= static_cast<double>(load.slo.ttft_us);
}

}  // namespace

SloTargets planned_targets(const SloTargets& slo, std::int64_t ttft_us, std::int32_t most_tokens) {
  if (slo.e2e_us == 0) return slo;
  const auto stricter = [](std::int64_t one, std::int64_t other) { return one == 0 ? other : std::min(one, other); };
  SloTargets planned = slo;
  if (ttft_us == 0) {
    planned.ttft_us = stricter(slo.ttft_us, slo.e2e_us);
    return planned;
  }
  const std::int64_t left_us = std::max<std::int64_t>(1, slo.e2e_us - ttft_us);
  planned.tpot_us = stricter(slo.tpot_us, std::max<std::int64_t>(1, left_us / std::max(1, most_tokens - 1)));
  return planned;
}

double slack_us(const DeadlineLoad& load) {
  return static_cast<double>(load.slo.tpot_us) * (load.n_done + load.tokens_per_step) -
         static_cast<double>(load.since_us);
}

double slack_soon_us(const DeadlineLoad& load, const StepForecast& forecast) {
  const double won_back_us = static_cast<double>(load.slo.tpot_us) - forecast.decode_us / load.tokens_per_step;
  return slack_us(load) + std::min(kSoonTokens, load.remaining) * won_back_us;
}

bool can_be_on_time(const DeadlineLoad& load, const StepForecast& forecast) {
  return forecast.decode_us <= static_cast<double>(load.slo.tpot_us) * load.tokens_per_step;
}

std::int32_t prompt_rows_in_time(std::span<const DeadlineLoad> loads, const StepForecast& forecast, std::int32_t most) {
  if (!(forecast.prompt_row_us > 0) || forecast.has_queue) return most;
  if (std::any_of(loads.begin(), loads.end(), [&](const auto& load) { return is_pressing(load, forecast); }))
    return most;
  const double rows =
      (least_slack_soon_us(loads, forecast) - (1 + kStepsInHand) * forecast.decode_us) / forecast.prompt_row_us;
  if (rows >= most) return most;
  return std::min(most, std::max(kLeastPromptRows, static_cast<std::int32_t>(rows)));
}

void mark_sequences_to_skip(std::span<const DeadlineLoad> loads, const StepForecast& forecast, std::int32_t most,
                            std::vector<std::uint8_t>& skipped) {
  skipped.assign(loads.size(), 0);
  if (!(forecast.prompt_row_us > 0)) return;
  const double in_hand_us = kStepsInHand * forecast.decode_us, ahead_us = in_hand_us + most * forecast.prompt_row_us;
  if (least_slack_soon_us(loads, forecast) >= in_hand_us) return;
  for (std::size_t i = 0; i < loads.size(); ++i) skipped[i] = has_pace(loads[i]) && slack_us(loads[i]) > ahead_us;
}

double worth_of_token(const DeadlineLoad& load, const StepForecast& forecast) {
  const bool is_late = has_pace(load) && slack_us(load) < forecast.decode_us;
  return is_late && can_be_on_time(load, forecast) ? kWorthWhenLate : 1;
}

}  // namespace slip
