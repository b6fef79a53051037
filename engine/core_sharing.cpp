// SPDX-License-Identifier: Apache-2.0
#include "engine/core_sharing.h"

#include <algorithm>
#include <bit>

namespace slip {
namespace {

constexpr std::int64_t kIdleUs = 3'000;  // the gap between two steps of a busy engine is about 100 µs
// A unit that runs longer than this gets its cores in every step. Otherwise the learner would be stuck inside the unit
// while the engine is busy or reads prompts.
constexpr std::int64_t kOverdueUs = 1'000'000;
constexpr double kLeaseCostRate = 1.0 / 16;
constexpr double kShareMemoryUs = 20e6;  // of step time over which the share of decoding is smoothed

// Assumes that step time is inversely proportional to threads. With one thread, the learner takes half of the core.
double worst_slowdown(int n_threads, int leased_threads) {
  if (n_threads == 1) return 2;
  return static_cast<double>(n_threads) / leased_threads;
}

// Adds to a counter that only the calling thread writes.
void add(std::atomic<std::int64_t>& counter, std::int64_t value) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

CorePlan plan_cores(std::span<const kernels::AllowedCpu> allowed, std::span<const int> pool_cpus, int n_threads,
                    int learning_cores) {
  CorePlan plan;
  const int wanted = std::max(1, learning_cores);
  if (pool_cpus.empty()) {
    plan.leased_threads = std::max(1, n_threads - wanted);
    return plan;
  }
  for (const kernels::AllowedCpu& spare : allowed) {
    const bool taken = std::find(pool_cpus.begin(), pool_cpus.end(), spare.cpu) != pool_cpus.end();
    if (!taken && std::ssize(plan.learner_cpus) < wanted) plan.learner_cpus.push_back(spare.cpu);
  }
  plan.leased_threads = n_threads;
  while (plan.leased_threads > 1 && std::ssize(plan.learner_cpus) < wanted) {
    --plan.leased_threads;
    plan.learner_cpus.push_back(pool_cpus[static_cast<std::size_t>(plan.leased_threads)]);
  }
  return plan;
}

CoreSharing::CoreSharing(kernels::ThreadPool& pool, int leased_threads, std::int64_t (*now_us)())
    : pool_(pool),
      leased_threads_(leased_threads),
      now_us_(now_us),
      last_end_us_(now_us() - kIdleUs - 1),
      lease_cost_(1 - 1 / worst_slowdown(pool.n_threads(), leased_threads)) {
  const double slowdown = worst_slowdown(pool.n_threads(), leased_threads);
  const auto prompts = times_.begin() + kBuckets;
  std::fill(times_.begin(), prompts, StepTimes(leased_threads < pool.n_threads(), slowdown));
  // Prompt steps scale with the cores, so a trial with fewer threads would take up to twice as long, and a prompt step
  // is already long.
  std::fill(prompts, times_.end(), StepTimes(/*can_choose=*/false, slowdown));
}

StepTimes& CoreSharing::times_of(const StepKind& kind) noexcept {
  const auto rows = static_cast<std::uint32_t>(std::max(kind.rows, 1));
  const auto bucket = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(rows - 1)), kBuckets - 1);
  return times_[(kind.has_prompt ? kBuckets : 0) + bucket];
}

// A lease does not apply to steps that read prompts until the unit is overdue. They scale with the cores: a lease would
// cost twice as much as in decoding, and would lengthen the longest gaps between tokens.
bool CoreSharing::leased(const StepKind& kind, std::int64_t now) const noexcept {
  const std::int64_t unit = unit_.load(std::memory_order_acquire);
  if (unit == 0) return false;
  return ((unit & 1) != 0 && !kind.has_prompt) || now - unit > kOverdueUs;
}

void CoreSharing::begin_step(const StepKind& kind) noexcept {
  current_ = &times_of(kind);
  in_prompt_.store(kind.has_prompt, std::memory_order_relaxed);
  mode_ = leased(kind, now_us_()) ? StepMode::kLeased : current_->plan();
  trial_ = mode_ != StepMode::kLeased && mode_ != current_->chosen();
  in_step_.store(true, std::memory_order_relaxed);
  pool_.use_threads(mode_ == StepMode::kAll ? pool_.n_threads() : leased_threads_);
  if (mode_ != StepMode::kLeased) return;
  in_leased_step_.store(true);
  if (unit_.load() == 0) pool_.use_threads(pool_.n_threads());  // the unit has just ended
}

void CoreSharing::end_step(std::int64_t step_us, std::int32_t committed) noexcept {
  last_end_us_.store(now_us_(), std::memory_order_relaxed);
  in_step_.store(false, std::memory_order_release);
  in_leased_step_.store(false);
  const bool read_prompt = in_prompt_.exchange(false, std::memory_order_relaxed);
  if (current_ == nullptr) return;
  current_->add(mode_, static_cast<double>(step_us));
  add(busy_us_, step_us);
  const double rate = std::min(1.0, static_cast<double>(step_us) / kShareMemoryUs);
  decode_share_ += rate * ((read_prompt ? 0 : 1) - decode_share_);
  add(committed_, committed);
  if (mode_ != StepMode::kLeased) return;
  const double cost = 1 - 1 / current_->slowdown();
  add(leased_us_, step_us);
  add(cost_us_, static_cast<std::int64_t>(cost * static_cast<double>(step_us)));
  const double before = lease_cost_.load(std::memory_order_relaxed);
  lease_cost_.store(before + kLeaseCostRate * (cost - before), std::memory_order_relaxed);
}

void CoreSharing::set_decode_time(DecodeTime time) noexcept {
  time.share = decode_share_;
  decode_time_.set(time);
}

void CoreSharing::begin_unit(bool with_lease) noexcept {
  const std::int64_t start_us = std::max<std::int64_t>(now_us_(), 2);
  unit_.store((start_us & ~std::int64_t{1}) | (with_lease ? 1 : 0), std::memory_order_release);
}

// A unit may end long before the step does: most scoring takes a fifth of a leased step.
void CoreSharing::end_unit() noexcept {
  unit_.store(0);
  if (in_leased_step_.load()) pool_.use_threads(pool_.n_threads());
}

void CoreSharing::begin_background_step() noexcept {
  mode_ = StepMode::kAll;
  trial_ = false;
  pool_.use_threads(pool_.n_threads());
}

bool CoreSharing::idle() const noexcept {
  return idle_us() > kIdleUs;
}

std::int64_t CoreSharing::idle_us() const noexcept {
  if (in_step_.load(std::memory_order_acquire)) return 0;
  return now_us_() - last_end_us_.load(std::memory_order_relaxed);
}

CoreSharing::Totals CoreSharing::totals() const noexcept {
  return {busy_us_.load(std::memory_order_relaxed), leased_us_.load(std::memory_order_relaxed),
          cost_us_.load(std::memory_order_relaxed), committed_.load(std::memory_order_relaxed)};
}

}  // namespace slip
