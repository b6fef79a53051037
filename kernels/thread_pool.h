// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace slip::kernels {

// A logical CPU that this process may use, and its index within its core: 0 the first, 1 its sibling, …
struct AllowedCpu {
  int cpu = 0, sibling = 0;
};

// Assigns each worker a CPU, separate cores first. Empty (no pinning) when there are more workers than CPUs: two
// workers on one CPU would wait for each other while another is idle. Pure.
std::vector<int> plan_pins(std::span<const AllowedCpu> allowed, int n_threads);
// Lets a worker use only these CPUs; false: it cannot.
using KeepTo = std::function<bool(int worker, std::span<const int> cpus)>;
// Gives each worker its CPU of plan_pins(), and returns these. Empty: not all could be pinned, so none stays pinned,
// and the system can move them.
std::vector<int> pin_all_or_none(std::span<const AllowedCpu> allowed, int n_threads, const KeepTo& keep_to);
// The CPUs that the calling thread may use, ascending.
std::vector<AllowedCpu> allowed_cpus();

// Whether workers are pinned, where the machine allows it. On a machine shared with other processes pinning is worse,
// since a pinned worker cannot move away.
enum class Pinning { kNone, kOwnCpus };

// A fixed team of threads for data-parallel loops; the caller is worker 0. Workers spin briefly between loops (a decode
// step runs over 100 loops), then sleep. The assignment of indices to workers never changes a result. Threads: one
// thread calls parallel_for and parallel_stretches; the others may be called from any.
class ThreadPool {
 public:
  // `n_threads` includes the caller; 1 runs every loop inline. The CPUs are those the calling thread may use.
  // std::system_error without a thread, std::bad_alloc; the threads that had started end.
  explicit ThreadPool(int n_threads, Pinning pinning = Pinning::kNone);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;
  bool is_pinned() const;
  // The CPU of each worker, [n_threads]; empty: not pinned.
  const std::vector<int>& cpus() const;
  // Limits the next loops to the first `n` workers, clamped to [1, n_threads]. The others sleep without spinning, so
  // their CPUs are free for other threads. Costs nothing when `n` is unchanged. A loop that runs is not affected.
  void use_threads(int n);
  int n_used() const;
  // Pins the calling thread to worker 0's CPU if the pool is pinned; it then keeps that CPU while it waits for workers.
  // Only for a thread that starts no others, which inherit its CPUs; so the constructor does not do it. False: the
  // thread is not pinned, and yields while it waits.
  bool pin_caller() const;
  // Calls body(index, worker) once for every index in [0, n), worker in [0, n_threads). Returns when all are done. The
  // body must not throw, here and in parallel_stretches().
  void parallel_for(std::size_t n, const std::function<void(std::size_t index, int worker)>& body);
  // Calls body(begin, end, worker) for contiguous ranges, for loops that stream through memory. Ranges become shorter
  // towards the end, so that the threads finish together.
  void parallel_stretches(std::size_t n,
                          const std::function<void(std::size_t begin, std::size_t end, int worker)>& body);

 private:
  struct State;
  void run(std::size_t n, bool in_stretches, const std::function<void(std::size_t, std::size_t, int)>& body);
  std::unique_ptr<State> state_;
};

}  // namespace slip::kernels
