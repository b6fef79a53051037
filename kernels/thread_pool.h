// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace slip::kernels {

// A logical CPU that this process may run on, and which of its core's it is: 0 the first, 1 its sibling, …
struct AllowedCpu {
  int cpu = 0, sibling = 0;
};

// Which CPU each worker of a pool stays on: a core each before anybody shares one. Empty, which pins nobody, when there
// are more workers than CPUs: two on one would wait for each other while a third CPU rests. Pure.
std::vector<int> plan_pins(std::span<const AllowedCpu> allowed, int n_threads);
// What the calling thread may run on, ascending.
std::vector<AllowedCpu> allowed_cpus();

// A team that shares the machine with others (a second server, a shell) is better not pinned: its members could not
// make way for them.
enum class Pinning { kNone, kOwnCpus };

// A fixed team for data-parallel loops: the caller is worker 0 and takes part. Workers spin briefly between loops
// (a decode step runs some hundred loops), then sleep. Which worker runs which index never changes a result.
// Threads: one thread calls parallel_for and use_threads; cpus(), n_threads() and is_pinned() may be called from any.
class ThreadPool {
 public:
  // `n_threads` counts the caller; 1 makes every loop run inline. The CPUs are those the calling thread may use.
  explicit ThreadPool(int n_threads, Pinning pinning = Pinning::kNone);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;
  bool is_pinned() const;
  // The CPU of each worker, [n_threads]; empty: no worker is pinned.
  const std::vector<int>& cpus() const;
  // Gives the coming loops to the first `n` workers; `n` is clamped to [1, n_threads]. The other workers sleep until
  // they are used again, and do not spin: their CPUs are free for other threads. Costs nothing when `n` is unchanged.
  void use_threads(int n);
  int n_used() const;
  // Keeps the calling thread to worker 0's CPU if the pool is pinned. Never the constructor's doing: a thread hands its
  // CPUs down to those it starts, so only one that starts none may be pinned.
  void pin_caller() const;
  // Calls body(index, worker) once for every index in [0, n), worker in [0, n_threads). Returns when all are done.
  void parallel_for(std::size_t n, const std::function<void(std::size_t index, int worker)>& body);
  // Likewise body(begin, end, worker) for neighbours, for who streams through memory: first long stretches, then ever
  // shorter ones, so that the threads end together.
  void parallel_stretches(std::size_t n,
                          const std::function<void(std::size_t begin, std::size_t end, int worker)>& body);

 private:
  struct State;
  void run(std::size_t n, bool in_stretches, const std::function<void(std::size_t, std::size_t, int)>& body);
  std::unique_ptr<State> state_;
};

}  // namespace slip::kernels
