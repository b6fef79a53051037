// SPDX-License-Identifier: Apache-2.0
#include "kernels/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace slip::kernels {

struct ThreadPool::State {
  std::vector<std::jthread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::size_t> next{0};
  std::atomic<int> busy{0};
  std::size_t n = 0;
  const std::function<void(std::size_t, int)>* body = nullptr;
  std::atomic<bool> stopping{false};
  int n_threads = 1;

  void take_indices(int worker) {
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      (*body)(i, worker);
    }
  }

  // A decode step's loops follow each other within microseconds: spin that long before sleeping.
  bool await_generation(std::uint64_t seen) {
    for (int spin = 0; spin < 20000; ++spin) {
      if (generation.load(std::memory_order_acquire) != seen) return !stopping.load();
      __builtin_ia32_pause();
    }
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
    return !stopping.load();
  }

  void work(int worker) {
    std::uint64_t seen = 0;
    while (await_generation(seen)) {
      ++seen;
      take_indices(worker);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }

  void advance() {
    {
      std::lock_guard lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  state_->n_threads = n_threads < 1 ? 1 : n_threads;
  for (int worker = 1; worker < state_->n_threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true);
  state_->advance();
}

int ThreadPool::n_threads() const {
  return state_->n_threads;
}

void ThreadPool::parallel_for(std::size_t n, const std::function<void(std::size_t, int)>& body) {
  if (state_->n_threads == 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  state_->n = n;
  state_->body = &body;
  state_->next.store(0, std::memory_order_relaxed);
  state_->busy.store(state_->n_threads - 1, std::memory_order_relaxed);
  state_->advance();
  state_->take_indices(0);
  while (state_->busy.load(std::memory_order_acquire) != 0) __builtin_ia32_pause();
}

}  // namespace slip::kernels
