// SPDX-License-Identifier: Apache-2.0
#include "distill/governor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>

#include "common/clock.h"
#include "distill/learning_units.h"

namespace slip {

bool within_cadence(double steps_per_request, std::uint64_t answers_seen, std::uint64_t steps_done) {
  constexpr double kRounding = 1e-9;  // 10 × 0.1 is one step
  const double allowed = std::floor(static_cast<double>(answers_seen) * steps_per_request + kRounding);
  return static_cast<double>(steps_done) < allowed;
}

namespace {

StepDecision decide_cadence(double steps_per_request, const TopicProgress& topic) {
  const bool allowed = within_cadence(steps_per_request, topic.answers_seen, topic.steps_done);
  return {allowed, allowed ? "steps_per_request" : "waits for requests", 0};
}

class StepsPerRequestGovernor final : public Governor {
 public:
  StepsPerRequestGovernor(double steps_per_request, CoreSharing* cores)
      : steps_per_request_(steps_per_request), units_(cores, monotonic_us) {}
  bool allow_unit(LearningUnit) noexcept override { return units_.grant(); }
  void unit_done() noexcept override { units_.done(); }
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    return decide_cadence(steps_per_request_, topic);
  }
  double share_of_service() const noexcept override { return units_.share_of_service(); }
  double cost_tokens_per_s() const noexcept override { return units_.cost_tokens_per_s(); }

 private:
  double steps_per_request_;
  LearningUnits units_;
};

// The last inter-token gaps under one condition. The engine thread writes them without a lock, the learner's thread
// reads them. A read during a write may mix older and newer gaps, which only makes the estimate less precise.
class GapWindow {
 public:
  void add(std::int64_t gap_us) noexcept {
    const std::uint64_t n = count_.load(std::memory_order_relaxed);
    gaps_[n % kGaps].store(gap_us, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // The last gaps, of those added after the first `since`. Returns their number.
  std::size_t latest(std::uint64_t since, std::span<std::int64_t> out) const noexcept {
    const std::uint64_t end = count(), begin = std::max(since, end > out.size() ? end - out.size() : 0);
    if (end <= begin) return 0;
    for (std::uint64_t i = begin; i < end; ++i) out[i - begin] = gaps_[i % kGaps].load(std::memory_order_relaxed);
    return end - begin;
  }

  static constexpr std::uint64_t kGaps = 512;

 private:
  std::array<std::atomic<std::int64_t>, kGaps> gaps_{};
  std::atomic<std::uint64_t> count_{0};
};

constexpr std::size_t kQuietGaps = 400;             // their p99 is the fourth longest, so no single outlier
constexpr std::int64_t kIdleUs = 250'000;           // no step for this long means idle; a long prefill takes less
constexpr std::int64_t kQuietFreshUs = 60'000'000;  // load changes, so the quiet estimate is then measured again
constexpr std::int64_t kFirstBackOffUs = 100'000;
constexpr std::int64_t kLongestBackOffUs = 5'000'000;

std::int64_t p99(std::span<std::int64_t> gaps) {
  if (gaps.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(gaps.size() * 99 / 100);
  std::nth_element(gaps.begin(), gaps.begin() + rank, gaps.end());
  return gaps[static_cast<std::size_t>(rank)];
}

// Whether more than 1 % of the gaps exceed the bound, by three standard deviations of a Poisson count and two gaps.
bool exceeds_too_often(std::span<const std::int64_t> gaps, double bound) {
  const auto n_over =
      std::count_if(gaps.begin(), gaps.end(), [&](std::int64_t gap) { return static_cast<double>(gap) > bound; });
  const double expected = 0.01 * static_cast<double>(gaps.size());
  return static_cast<double>(n_over) > expected + 3 * std::sqrt(expected) + 2;
}

// Trains while the p99 inter-token latency with training stays within (1 + slack) of the p99 without. Both are measured
// in turns: first a quiet period, then training, and a new quiet period when the old estimate is stale. Only gaps
// between two steps that decode and read no prompt count.
class SlackGovernor final : public Governor {
 public:
  SlackGovernor(double slack, double steps_per_request, std::int64_t (*now_us)(), CoreSharing* cores)
      : slack_(slack), steps_per_request_(steps_per_request), now_us_(now_us), units_(cores, now_us) {}

  bool allow_unit(LearningUnit unit) noexcept override {
    training_.store(false, std::memory_order_relaxed);
    if (const char* refusal = refuse(now_us_())) {
      return is_scoring(unit) && units_.grant_guaranteed() ? true : units_.refuse(refusal);
    }
    training_.store(true, std::memory_order_relaxed);
    return units_.grant();
  }
  void unit_done() noexcept override {
    training_.store(false, std::memory_order_relaxed);
    units_.done();
  }
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    return decide_cadence(steps_per_request_, topic);
  }
  bool engine_idle() const noexcept override { return units_.engine_idle(); }
  std::int64_t idle_us() const noexcept override { return units_.idle_us(); }
  double share_of_service() const noexcept override { return units_.share_of_service(); }
  double cost_tokens_per_s() const noexcept override { return units_.cost_tokens_per_s(); }
  const char* reason() const noexcept override { return units_.reason(); }

  void on_step(const StepFigures& figures) noexcept override {
    waiting_.store(figures.n_waiting, std::memory_order_relaxed);
    const std::int64_t before = last_step_us_.exchange(figures.at_us, std::memory_order_relaxed);
    const bool decodes = figures.n_decoding > 0 && figures.n_prefilling == 0;
    const bool token_gap = decoded_before_ && decodes;
    decoded_before_ = decodes;
    if (token_gap) (training_.load(std::memory_order_relaxed) ? with_ : without_).add(figures.at_us - before);
  }

 private:
  // The reason why training may not run now; null: it may.
  const char* refuse(std::int64_t now) noexcept {
    if (waiting_.load(std::memory_order_relaxed) > 0) return "requests wait for admission";
    if (now - last_step_us_.load(std::memory_order_relaxed) > kIdleUs) return nullptr;
    if (now < back_off_until_us_) return "training lengthened p99 inter-token latency";
    if (!quiet_known(now)) return "measures latency without training";
    std::array<std::int64_t, GapWindow::kGaps> gaps;
    const std::size_t n = with_.latest(with_since_, gaps);
    if (!exceeds_too_often(std::span(gaps).first(n), (1 + slack_) * static_cast<double>(quiet_p99_us_))) {
      if (n >= kQuietGaps) back_off_us_ = kFirstBackOffUs;
      return nullptr;
    }
    back_off_until_us_ = now + back_off_us_;
    back_off_us_ = std::min(back_off_us_ * 2, kLongestBackOffUs);
    with_since_ = with_.count();  // the next trial starts with an empty window
    return "training lengthened p99 inter-token latency";
  }

  bool quiet_known(std::int64_t now) noexcept {
    if (now - quiet_at_us_ > kQuietFreshUs) {
      if (!measuring_quiet_) without_since_ = without_.count();
      measuring_quiet_ = true;
    }
    if (measuring_quiet_ && without_.count() - without_since_ >= kQuietGaps) {
      std::array<std::int64_t, GapWindow::kGaps> gaps;
      quiet_p99_us_ = p99(std::span(gaps).first(without_.latest(without_since_, gaps)));
      measuring_quiet_ = false;
      quiet_at_us_ = now;
    }
    return !measuring_quiet_;
  }

  const double slack_, steps_per_request_;
  std::int64_t (*const now_us_)();
  // Both threads.
  std::atomic<bool> training_{false};
  std::atomic<std::int32_t> waiting_{0};
  std::atomic<std::int64_t> last_step_us_{-2 * kIdleUs};
  GapWindow with_, without_;
  // Engine thread.
  bool decoded_before_ = false;
  // Learner's thread.
  LearningUnits units_;
  std::uint64_t with_since_ = 0, without_since_ = 0;
  std::int64_t quiet_at_us_ = -2 * kQuietFreshUs, quiet_p99_us_ = 0;
  bool measuring_quiet_ = false;
  std::int64_t back_off_us_ = kFirstBackOffUs, back_off_until_us_ = 0;
};

}  // namespace

std::unique_ptr<Governor> make_slack_governor(double latency_slack, double steps_per_request, std::int64_t (*now_us)(),
                                              CoreSharing* cores) {
  return std::make_unique<SlackGovernor>(latency_slack, steps_per_request, now_us, cores);
}

std::unique_ptr<Governor> make_steps_per_request_governor(double steps_per_request, CoreSharing* cores) {
  return std::make_unique<StepsPerRequestGovernor>(steps_per_request, cores);
}

}  // namespace slip
