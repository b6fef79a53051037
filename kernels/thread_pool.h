// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace slip::kernels {

// A fixed team for data-parallel loops: the caller is worker 0 and takes part. Workers spin briefly between loops
// (a decode step runs some hundred loops), then sleep. Which worker runs which index never changes a result.
// Threads: one thread calls parallel_for at a time.
class ThreadPool {
 public:
  // `n_threads` counts the caller; 1 makes every loop run inline.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;
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
