// SPDX-License-Identifier: Apache-2.0
#include "engine/speed_forecast.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/clock.h"
#include "common/error.h"

namespace slip {
namespace {

constexpr int kColdSteps = 8;       // they touch memory for the first time
constexpr double kKeep = 1.0 / 32;  // weight of a new value

// The first value counts whole.
void add(std::atomic<double>& average, double value) {
  const double before = average.load(std::memory_order_relaxed);
  average.store(before == 0 ? value : before + (value - before) * kKeep, std::memory_order_relaxed);
}

double value_of(const std::atomic<double>& average) {
  return average.load(std::memory_order_relaxed);
}

std::string ms_text(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 1e5 ? "%.3g" : "%.0f", us / 1e3);
  return std::string(text) + " ms";
}

void require_attainable(const char* field, std::int64_t asked_us, std::int64_t predicted_us) {
  if (asked_us == 0 || predicted_us <= asked_us) return;
  throw Error(ErrorCode::kUnattainable,
              std::string("slo.") + field + " asks for " + ms_text(static_cast<double>(asked_us)) + "; " +
                  ms_text(static_cast<double>(predicted_us)) + " are predicted now",
              "ask for a slower speed, or again when fewer requests run", std::string("slo.") + field);
}

}  // namespace

void SpeedForecast::on_step(const StepFigures& figures) noexcept {
  n_prefilling_.store(figures.n_prefilling, std::memory_order_relaxed);
  last_step_us_.store(monotonic_us(), std::memory_order_relaxed);
  if (n_steps_ < kColdSteps) {
    ++n_steps_;
    return;
  }
  const auto us = static_cast<double>(figures.step_us);
  const auto at = std::min<std::size_t>(static_cast<std::size_t>(figures.n_decoding), kCounts - 1);
  const bool decodes = figures.n_decoding > 0 && figures.committed > 0;
  // A busy service reads prompts in most of its steps, and answers wait for them.
  if (decodes) measure(token_us_[at], us * figures.n_decoding / figures.committed);
  if (figures.prefill_rows == 0) {
    if (decodes) measure(step_us_[at], us);
  } else if (figures.prefill_rows >= PromptTimeEstimate::kRowsWorthMeasuring) {
    const double decode_us = figures.n_decoding > 0 ? nearest(step_us_, figures.n_decoding) : 0;
    prompt_time_.add(figures.prefill_rows, us - decode_us, figures.n_decoding > 0);
    prompt_row_us_.store(prompt_time_.row_us(), std::memory_order_relaxed);
  }
}

void SpeedForecast::on_finished(const RequestSummary& summary) noexcept {
  const RequestFigures& figures = summary.figures;
  if (figures.first_token_us == 0 || figures.prompt_tokens == 0) return;
  const auto n_prompt = static_cast<double>(figures.prompt_tokens);
  add(prompt_tokens_, n_prompt);
  add(read_share_, (n_prompt - figures.cached_tokens) / n_prompt);
  add(answer_us_, static_cast<double>(figures.finished_us - figures.first_token_us));
}

void SpeedForecast::measure(Measured& measured, double us) const {
  add(measured.us, us);
  measured.at_us.store(last_step_us_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// A number of sequences that always leads to a refusal is never measured again. So a time that steps have not confirmed
// for kStaleUs gives way to a newer one of a sequence more or less, and one more request is tried. A time of more
// distant numbers does not replace it: else a burst of requests would all be served at the speed of one.
double SpeedForecast::nearest(const ByCount& by_count, std::int32_t n) const {
  const auto count = static_cast<std::int32_t>(kCounts);
  const std::int64_t old_us = last_step_us_.load(std::memory_order_relaxed) - kStaleUs;
  n = std::clamp(n, 1, count - 1);
  for (const bool may_be_old : {false, true}) {
    for (std::int32_t distance = 0; distance < (may_be_old ? count : 2); ++distance) {
      for (const std::int32_t at : {n + distance, n - distance}) {
        if (at <= 0 || at >= count) continue;
        const Measured& measured = by_count[static_cast<std::size_t>(at)];
        const double us = value_of(measured.us);
        if (us > 0 && (may_be_old || measured.at_us.load(std::memory_order_relaxed) > old_us)) return us;
      }
    }
  }
  return 0;
}

SloTargets SpeedForecast::predict(const Load& load, const Lengths& lengths) const {
  const std::int32_t n_here = load.n_running + load.n_waiting, n_beside = std::min(n_here + 1, max_running_);
  if (n_here == 0 && monotonic_us() - last_step_us_.load(std::memory_order_relaxed) >= kStaleUs) return {};
  // What the last step read may have ended since.
  const std::int32_t n_prefilling = std::min(n_prefilling_.load(std::memory_order_relaxed), load.n_running);
  const double token_us = nearest(token_us_, n_beside), row_us = value_of(prompt_row_us_);
  SloTargets predicted;
  predicted.tpot_us = static_cast<std::int64_t>(token_us);
  if (row_us < 0 || token_us == 0) return predicted;
  const double prompts = lengths.prompt + value_of(prompt_tokens_) * (load.n_before + n_prefilling);
  const double known_share = value_of(read_share_), share = known_share == 0 ? 1 : known_share;
  const std::int32_t n_ends = std::max(0, load.n_running + load.n_before + 1 - max_running_);
  const double for_a_place = value_of(answer_us_) * n_ends / max_running_;
  const double ttft_us = for_a_place + prompts * share * row_us + nearest(step_us_, n_beside);
  predicted.ttft_us = static_cast<std::int64_t>(ttft_us);
  predicted.e2e_us = static_cast<std::int64_t>(ttft_us + token_us * std::max(0, lengths.answer - 1));
  return predicted;
}

void require_attainable(const SloTargets& asked, const SloTargets& predicted) {
  require_attainable("tpot_ms", asked.tpot_us, predicted.tpot_us);
  require_attainable("ttft_ms", asked.ttft_us, predicted.ttft_us);
  require_attainable("e2e_ms", asked.e2e_us, predicted.e2e_us);
}

}  // namespace slip
