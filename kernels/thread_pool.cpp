// SPDX-License-Identifier: Apache-2.0
#include "kernels/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/thread_memory.h"
#include "common/thread_name.h"

namespace slip::kernels {
namespace {

// A worker that sleeps is a quarter of a millisecond late in a virtual machine, which is three draft passes. Loops of
// one step, and the steps of a busy server, follow each other within this time. An idle server uses no CPU.
constexpr std::chrono::microseconds kSpinTime{1000};
constexpr int kSpinsPerLook = 64;  // at the clock
// After this many spins, a caller that is not pinned yields: the awaited worker may need this core. A pinned caller
// keeps its core, which no worker can use: Linux would give it to a niced or idle thread until the next tick, for
// milliseconds.
constexpr int kSpinsBeforeYield = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The first CPU of the core of `cpu`, parsed from text such as "0-1" or "0,64"; `cpu` itself if unknown.
int first_of_core(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return file >> first ? first : cpu;
}

// False: nothing was changed. A container may forbid it, and an unpinned team is only slower.
bool keep_thread_to(pthread_t thread, std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

// Whether the machine lets a thread keep to these CPUs. A short thread tries it, so the caller's own CPUs stay as they
// are.
bool may_keep_to(std::span<const int> cpus) {
  bool may = false;
  std::thread([&] { may = keep_thread_to(::pthread_self(), cpus); }).join();
  return may;
}

}  // namespace

std::vector<int> plan_pins(std::span<const AllowedCpu> allowed, int n_threads) {
  if (n_threads > std::ssize(allowed)) return {};
  std::vector<AllowedCpu> order(allowed.begin(), allowed.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const AllowedCpu& a, const AllowedCpu& b) { return a.sibling < b.sibling; });
  std::vector<int> cpus;
  for (int worker = 0; worker < n_threads; ++worker) cpus.push_back(order[static_cast<std::size_t>(worker)].cpu);
  return cpus;
}

std::vector<int> pin_all_or_none(std::span<const AllowedCpu> allowed, int n_threads, const KeepTo& keep_to) {
  std::vector<int> plan = plan_pins(allowed, n_threads);
  for (int worker = 0; worker < std::ssize(plan); ++worker) {
    if (keep_to(worker, std::span(plan).subspan(static_cast<std::size_t>(worker), 1))) continue;
    std::vector<int> all;
    for (const AllowedCpu& one : allowed) all.push_back(one.cpu);
    for (int pinned = 0; pinned < worker; ++pinned) keep_to(pinned, all);
    return {};
  }
  return plan;
}

std::vector<AllowedCpu> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<AllowedCpu> cpus;
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
    const int core = first_of_core(cpu);
    cpus.push_back({cpu, static_cast<int>(std::count(cores.begin(), cores.end(), core))});
    cores.push_back(core);
  }
  return cpus;
}

// `gate` packs generation << 32 | open << 31 | workers inside. A worker may enter a loop only while it is open. The
// caller thus waits only for workers that entered, never for one that still sleeps.
struct ThreadPool::State {
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kInside = kOpen - 1;
  static constexpr std::uint64_t kGeneration = std::uint64_t{1} << 32;

  alignas(64) std::atomic<std::uint64_t> gate{0};
  alignas(64) std::atomic<std::size_t> next{0};
  alignas(64) std::size_t n = 0;
  bool in_stretches = false;
  const std::function<void(std::size_t, std::size_t, int)>* body = nullptr;
  int n_threads = 1;
  std::vector<int> pins;  // one CPU per worker; empty: not pinned
  std::mutex mutex;
  std::condition_variable wake, use;  // wake: a loop has opened; use: more workers are used
  std::atomic<int> n_sleeping{0};     // workers that wait for `wake`
  std::atomic<int> n_used{1};         // workers beyond these wait for `use`
  std::atomic<bool> caller_is_pinned{false};
  std::atomic<bool> stopping{false};
  std::vector<std::jthread> workers;

  // Stops the workers here, since ~ThreadPool() does not run if the constructor throws: when a later thread cannot be
  // started, the earlier ones must end.
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping.store(true);
    }
    wake.notify_all();
    use.notify_all();
    workers.clear();
  }

  void take_indices(int worker) {
    const auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    for (std::size_t i = take(); i < n; i = take()) (*body)(i, i + 1, worker);
  }

  // Takes half a fair share of the remaining work each time (guided self-scheduling; Polychronopoulos and Kuck, 1987).
  void take_stretches(int worker) {
    std::size_t begin = next.load(std::memory_order_relaxed);
    while (begin < n) {
      const auto team = static_cast<std::size_t>(n_used.load(std::memory_order_relaxed));
      const std::size_t size = std::max<std::size_t>((n - begin) / (2 * team), 1);
      if (!next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed)) continue;
      (*body)(begin, begin + size, worker);
      begin = next.load(std::memory_order_relaxed);
    }
  }

  void take(int worker) { in_stretches ? take_stretches(worker) : take_indices(worker); }

  // Enters the open loop of a generation after `seen`; false when no such loop is open.
  bool enter(std::uint64_t& seen) {
    std::uint64_t now = gate.load(std::memory_order_acquire);
    while ((now & kOpen) != 0 && now / kGeneration != seen) {
      if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) {
        seen = now / kGeneration;
        return true;
      }
    }
    return false;
  }

  bool is_news(std::uint64_t seen) const {
    const std::uint64_t now = gate.load();
    return stopping.load() || ((now & kOpen) != 0 && now / kGeneration != seen);
  }

  bool is_used(int worker) const { return worker < n_used.load() || stopping.load(); }

  void await_news(int worker, std::uint64_t seen) {
    const auto has_news = [&] { return is_news(seen) || !is_used(worker); };
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int spin = 0; spin < kSpinsPerLook; ++spin) {
        if (has_news()) return;
        pause_briefly();
      }
    } while (std::chrono::steady_clock::now() < end);
    std::unique_lock lock(mutex);
    n_sleeping.fetch_add(1);
    wake.wait(lock, has_news);
    n_sleeping.fetch_sub(1);
  }

  // Unused workers wait on `use`, so that loops do not wake them.
  void await_use(int worker) {
    std::unique_lock lock(mutex);
    use.wait(lock, [&] { return is_used(worker); });
  }

  void work(int worker) {
    name_thread("compute");
    prepare_thread_memory();
    std::uint64_t seen = 0;
    while (!stopping.load()) {
      if (!is_used(worker)) {
        await_use(worker);
        continue;
      }
      if (!enter(seen)) {
        await_news(worker, seen);
        continue;
      }
      take(worker);
      gate.fetch_sub(1, std::memory_order_release);
    }
  }

  // Takes the mutex only if a worker sleeps. It orders this wake-up after the sleeper's last check of the gate.
  void wake_sleepers() {
    if (n_sleeping.load() == 0) return;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
  }

  void close_and_await() {
    gate.fetch_sub(kOpen, std::memory_order_acq_rel);
    for (int spin = 0; (gate.load(std::memory_order_acquire) & kInside) != 0; ++spin) {
      if (spin < kSpinsBeforeYield || caller_is_pinned.load(std::memory_order_relaxed)) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
    }
  }
};

ThreadPool::ThreadPool(int n_threads, Pinning pinning) : state_(std::make_unique<State>()) {
  state_->n_threads = std::max(n_threads, 1);
  state_->n_used.store(state_->n_threads);
  for (int worker = 1; worker < state_->n_threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
  if (pinning == Pinning::kNone) return;
  state_->pins = pin_all_or_none(allowed_cpus(), state_->n_threads, [this](int worker, std::span<const int> cpus) {
    if (worker == 0) return may_keep_to(cpus);
    return keep_thread_to(state_->workers[static_cast<std::size_t>(worker - 1)].native_handle(), cpus);
  });
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::n_threads() const {
  return state_->n_threads;
}

bool ThreadPool::is_pinned() const {
  return !state_->pins.empty();
}

const std::vector<int>& ThreadPool::cpus() const {
  return state_->pins;
}

void ThreadPool::use_threads(int n) {
  State& state = *state_;
  n = std::clamp(n, 1, state.n_threads);
  const int before = state.n_used.load(std::memory_order_relaxed);
  if (n == before) return;
  {
    const std::lock_guard lock(state.mutex);
    state.n_used.store(n);
  }
  // Workers asleep on `wake` learn at the next loop that they are unused.
  if (n > before) state.use.notify_all();
}

int ThreadPool::n_used() const {
  return state_->n_used.load(std::memory_order_relaxed);
}

bool ThreadPool::pin_caller() const {
  const bool is_done = is_pinned() && keep_thread_to(::pthread_self(), std::span(state_->pins).first(1));
  state_->caller_is_pinned.store(is_done, std::memory_order_relaxed);
  return is_done;
}

void ThreadPool::parallel_for(std::size_t n, const std::function<void(std::size_t, int)>& body) {
  const auto each = [&](std::size_t begin, std::size_t end, int worker) {
    for (std::size_t i = begin; i < end; ++i) body(i, worker);
  };
  run(n, /*in_stretches=*/false, std::cref(each));
}

void ThreadPool::parallel_stretches(std::size_t n, const std::function<void(std::size_t, std::size_t, int)>& body) {
  run(n, /*in_stretches=*/true, body);
}

void ThreadPool::run(std::size_t n, bool in_stretches, const std::function<void(std::size_t, std::size_t, int)>& body) {
  if (n == 0) return;
  if (n_used() == 1 || n == 1) return body(0, n, 0);
  state_->n = n;
  state_->in_stretches = in_stretches;
  state_->body = &body;
  state_->next.store(0, std::memory_order_relaxed);
  const std::uint64_t generation = state_->gate.load(std::memory_order_relaxed) / State::kGeneration + 1;
  state_->gate.store(generation * State::kGeneration + State::kOpen);
  state_->wake_sleepers();
  state_->take(0);
  state_->close_and_await();
}

}  // namespace slip::kernels
