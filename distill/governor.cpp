// SPDX-License-Identifier: Apache-2.0
#include "distill/governor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "common/clock.h"

namespace slip {

namespace {

bool within_cadence(double steps_per_request, std::uint64_t requests_seen, std::uint64_t steps_done) {
  constexpr double kRounding = 1e-9;  // 10 × 0.1 is one step
  const double allowed = std::floor(static_cast<double>(requests_seen) * steps_per_request + kRounding);
  return static_cast<double>(steps_done) < allowed;
}

class StepsPerRequestGovernor final : public Governor {
 public:
  explicit StepsPerRequestGovernor(double steps_per_request) : steps_per_request_(steps_per_request) {}
  bool allow_unit() noexcept override { return true; }
  void unit_done() noexcept override {}
  bool allow_step(std::uint64_t requests_seen, std::uint64_t steps_done) noexcept override {
    return within_cadence(steps_per_request_, requests_seen, steps_done);
  }
  void on_step(const StepFigures&) noexcept override {}
  void on_finished(const RequestSummary&) noexcept override {}

 private:
  double steps_per_request_;
};

// The last inter-token gaps of one condition. Written by the engine thread without a lock, read by the trainer thread:
// a torn window (some gaps older, some newer) only blurs an estimate.
class GapWindow {
 public:
  void add(std::int64_t gap_us) noexcept {
    const std::uint64_t n = count_.load(std::memory_order_relaxed);
    gaps_[n % kGaps].store(gap_us, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // Of the gaps added after the first `since`; 0 without any.
  std::int64_t p99(std::uint64_t since) const noexcept {
    const std::uint64_t end = count();
    const std::uint64_t begin = std::max(since, end > kGaps ? end - kGaps : 0);
    if (end <= begin) return 0;
    std::array<std::int64_t, kGaps> gaps;
    for (std::uint64_t i = begin; i < end; ++i) gaps[i - begin] = gaps_[i % kGaps].load(std::memory_order_relaxed);
    const auto n = static_cast<std::ptrdiff_t>(end - begin);
    const auto rank = std::min<std::ptrdiff_t>(n - 1, n * 99 / 100);
    std::nth_element(gaps.begin(), gaps.begin() + rank, gaps.begin() + n);
    return gaps[static_cast<std::size_t>(rank)];
  }

 private:
  static constexpr std::uint64_t kGaps = 512;
  std::array<std::atomic<std::int64_t>, kGaps> gaps_{};
  std::atomic<std::uint64_t> count_{0};
};

constexpr std::uint64_t kQuietGaps = 100;           // p99 of fewer says nothing
constexpr std::uint64_t kTrainingGaps = 50;         // before training is judged by what it does
constexpr std::int64_t kIdleUs = 250'000;           // no step for so long (a long prefill takes less): nobody to harm
constexpr std::int64_t kQuietFreshUs = 10'000'000;  // load changes: after this the quiet estimate is taken anew
constexpr std::int64_t kFirstBackOffUs = 100'000;
constexpr std::int64_t kLongestBackOffUs = 5'000'000;

// Trains while p99 inter-token time with training stays within (1 + slack) of p99 without. Both are measured, in turns:
// a quiet stretch first, then training, and a new quiet stretch when the old one is stale.
class SlackGovernor final : public Governor {
 public:
  SlackGovernor(double slack, double steps_per_request, std::int64_t (*now_us)())
      : slack_(slack), steps_per_request_(steps_per_request), now_us_(now_us) {}

  bool allow_unit() noexcept override {
    training_.store(false, std::memory_order_relaxed);
    const bool allowed = decide(now_us_());
    training_.store(allowed, std::memory_order_relaxed);
    return allowed;
  }
  void unit_done() noexcept override { training_.store(false, std::memory_order_relaxed); }
  bool allow_step(std::uint64_t requests_seen, std::uint64_t steps_done) noexcept override {
    return within_cadence(steps_per_request_, requests_seen, steps_done);
  }

  void on_step(const StepFigures& figures) noexcept override {
    waiting_.store(figures.n_waiting, std::memory_order_relaxed);
    const std::int64_t before = last_step_us_.exchange(figures.at_us, std::memory_order_relaxed);
    const bool token_gap = decoding_before_ && figures.n_decoding > 0;
    decoding_before_ = figures.n_decoding > 0;
    if (token_gap) (training_.load(std::memory_order_relaxed) ? with_ : without_).add(figures.at_us - before);
  }
  void on_finished(const RequestSummary&) noexcept override {}

 private:
  bool decide(std::int64_t now) noexcept {
    if (waiting_.load(std::memory_order_relaxed) > 0) return false;
    if (now - last_step_us_.load(std::memory_order_relaxed) > kIdleUs) return true;
    if (now < back_off_until_us_) return false;
    if (!quiet_known(now)) return false;
    if (with_.count() - with_since_ < kTrainingGaps) return true;
    const auto bound = (1 + slack_) * static_cast<double>(without_.p99(without_since_));
    if (static_cast<double>(with_.p99(with_since_)) <= bound) {
      back_off_us_ = kFirstBackOffUs;
      return true;
    }
    back_off_until_us_ = now + back_off_us_;
    back_off_us_ = std::min(back_off_us_ * 2, kLongestBackOffUs);
    with_since_ = with_.count();  // the next trial is judged by itself
    return false;
  }

  bool quiet_known(std::int64_t now) noexcept {
    if (now - quiet_at_us_ > kQuietFreshUs) {
      if (!measuring_quiet_) without_since_ = without_.count();
      measuring_quiet_ = true;
    }
    if (measuring_quiet_ && without_.count() - without_since_ >= kQuietGaps) {
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
  bool decoding_before_ = false;
  // Trainer thread.
  std::uint64_t with_since_ = 0, without_since_ = 0;
  std::int64_t quiet_at_us_ = -2 * kQuietFreshUs;
  bool measuring_quiet_ = false;
  std::int64_t back_off_us_ = kFirstBackOffUs, back_off_until_us_ = 0;
};

}  // namespace

std::unique_ptr<Governor> make_slack_governor(double latency_slack, double steps_per_request,
                                              std::int64_t (*now_us)()) {
  return std::make_unique<SlackGovernor>(latency_slack, steps_per_request, now_us);
}

std::unique_ptr<Governor> make_steps_per_request_governor(double steps_per_request) {
  return std::make_unique<StepsPerRequestGovernor>(steps_per_request);
}

}  // namespace slip
