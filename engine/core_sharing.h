// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "common/clock.h"
#include "engine/scheduler/decode_time.h"
#include "engine/scheduler/step_times.h"
#include "kernels/thread_pool.h"

namespace slip {

// The cores that a background learner uses, and the number of threads that the engine keeps while they are leased.
struct CorePlan {
  std::vector<int> learner_cpus;  // empty: no affinity; the system schedules the learner anywhere
  int leased_threads = 1;         // threads of the engine while the learner holds a lease
};

// Gives the learner CPUs that no worker has, then those of the last workers, never worker 0's. `pool_cpus` is empty for
// a pool that is not pinned: then the learner has no affinity, and a lease only lowers the number of threads. Pure.
CorePlan plan_cores(std::span<const kernels::AllowedCpu> allowed, std::span<const int> pool_cpus, int n_threads,
                    int learning_cores);

// The kind of a step; steps of one kind take about the same time.
struct StepKind {
  bool has_prompt = false;  // prompt rows beside or instead of decoding
  std::int32_t rows = 1;    // rows of the target's pass, over all sequences
};

// Shares the cores between the engine and one background learner. The engine uses as many threads as pay for the kind
// of step. The learner announces each unit of its work, with or without a lease. Under a lease, the engine frees the
// learner's cores from its next step that reads no prompt until the unit ends. Without one, the unit uses idle time
// only. Any step frees the cores for a unit that is over 1 s old. Costs are measured from the engine's own steps.
// Threads: begin_step() and end_step() on the engine thread, begin_unit() and end_unit() on the learner's, the rest on
// any. Nothing blocks.
class CoreSharing {
 public:
  // Sums since the start. Times are of the engine's steps, in µs.
  struct Totals {
    std::int64_t busy_us = 0;    // in steps
    std::int64_t leased_us = 0;  // in steps under a lease
    std::int64_t cost_us = 0;    // added to steps by leases
    std::int64_t committed = 0;  // tokens
  };

  // `pool` outlives this object. REQUIRES: 1 ≤ leased_threads ≤ pool.n_threads().
  CoreSharing(kernels::ThreadPool& pool, int leased_threads, std::int64_t (*now_us)() = monotonic_us);

  // Sets the pool's threads for the step that begins.
  void begin_step(const StepKind& kind) noexcept;
  void end_step(std::int64_t step_us, std::int32_t committed) noexcept;
  // Gives a step of background requests all threads. It counts as idle time and has no end_step().
  void begin_background_step() noexcept;

  // Engine thread: sets what decode_time() returns, the value of better drafts by the steps measured so far.
  void set_decode_time(DecodeTime time) noexcept;
  // Engine thread, before begin_step(): whether the learner asks for its cores.
  bool lease_asked() const noexcept { return (unit_.load(std::memory_order_acquire) & 1) != 0; }
  // Engine thread, about the current step: ran_leased() when it left cores to the learner; ran_trial() when it tried
  // the number of threads that is not chosen. Such a step's time says nothing about other steps.
  bool ran_leased() const noexcept { return mode_ == StepMode::kLeased; }
  bool ran_trial() const noexcept { return trial_; }

  void begin_unit(bool with_lease) noexcept;
  // Gives the cores back to the running step.
  void end_unit() noexcept;

  // Whether no step runs and none has ended within the last 3 ms.
  bool idle() const noexcept;
  // For how long no step has run, in µs; 0 while one runs.
  std::int64_t idle_us() const noexcept;
  // Whether the running step reads a prompt.
  bool reads_prompt() const noexcept { return in_prompt_.load(std::memory_order_relaxed); }
  // The share of a leased step's time that the lease costs, 0 to 1, smoothed over recent leased steps.
  double lease_cost() const noexcept { return lease_cost_.load(std::memory_order_relaxed); }
  Totals totals() const noexcept;
  DecodeTime decode_time() const noexcept { return decode_time_.get(); }
  int leased_threads() const noexcept { return leased_threads_; }

 private:
  static constexpr std::size_t kBuckets = 14;  // row counts grouped by powers of two
  StepTimes& times_of(const StepKind& kind) noexcept;
  bool leased(const StepKind& kind, std::int64_t now) const noexcept;

  kernels::ThreadPool& pool_;
  const int leased_threads_;
  std::int64_t (*const now_us_)();
  // Engine thread.
  std::array<StepTimes, 2 * kBuckets> times_;
  StepTimes* current_ = nullptr;
  StepMode mode_ = StepMode::kAll;
  bool trial_ = false;
  double decode_share_ = 1;  // share of recent step time in steps that read no prompt
  // Written by the learner's thread. Start of the current unit in µs; the lowest bit means "with lease". 0: no unit.
  std::atomic<std::int64_t> unit_{0};
  // Written by the engine thread.
  std::atomic<bool> in_step_{false}, in_prompt_{false}, in_leased_step_{false};
  std::atomic<std::int64_t> last_end_us_;
  std::atomic<std::int64_t> busy_us_{0}, leased_us_{0}, cost_us_{0}, committed_{0};
  std::atomic<double> lease_cost_;
  SharedDecodeTime decode_time_;
};

}  // namespace slip
