// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/http/waker.h"

namespace slip {

// Keeps its threads running without anything to do.
struct IoContext : boost::asio::io_context {
  explicit IoContext(int n_threads = 1) : io_context(n_threads), work(get_executor()) {}
  boost::asio::executor_work_guard<executor_type> work;
};

// Runs a context's handlers on the calling thread until it is stopped or out of work. A handler's exception is logged
// and ends only that handler.
void run_handlers(boost::asio::io_context& context) noexcept;

// Threads for parsing, tokenizing, compiling schemas and reading files, which would block an I/O thread's connections.
// Slow work has threads of its own, so short requests never wait for it. Threads: any.
class WorkerPool {
 public:
  enum class Lane : std::uint8_t {
    kQuick,      // requests of milliseconds
    kCompiling,  // schemas that were not compiled yet, one at a time, at nice 10: tens of milliseconds each
    kSlow,       // one at a time, in memory that the Service reserves for it; at nice 15, so that the engine keeps its
                 // cores
  };

  WorkerPool();
  ~WorkerPool();  // stop()

  // Runs `work()` on a thread of the lane; returns its result or throws its exception. The coroutine resumes at once in
  // its own context. (With co_spawn a job's end would queue behind all waiting jobs, so results piled up.) `has_left()`
  // is an awaitable<bool>, polled ten times a second. Once it is true, work that has not begun is dropped and the
  // result is nullopt. `work` must own what it refers to, since it continues if the coroutine ends by an exception. It
  // is freed as soon as it is done or dropped.
  template <class Work, class HasLeft>
  boost::asio::awaitable<std::optional<std::invoke_result_t<Work&>>> run(Lane lane, Work work, HasLeft has_left);

  // Waits for the running jobs. Jobs that have not begun never run and are freed with the pool.
  void stop();

 private:
  // The thread or coroutine that moves a job out of kWaits owns its work.
  enum class Progress : std::uint8_t { kWaits, kRuns, kDone, kDropped };
  template <class Work>
  struct Job {
    Job(const boost::asio::any_io_executor& connection, Work asked) : waker(connection), work(std::move(asked)) {}
    bool take(Progress next) {
      auto expected = Progress::kWaits;
      return progress.compare_exchange_strong(expected, next, std::memory_order_acq_rel);
    }
    bool drop() {  // false: it has already begun
      if (!take(Progress::kDropped)) return false;
      work.reset();
      return true;
    }
    Waker waker;
    std::optional<Work> work;
    std::optional<std::invoke_result_t<Work&>> result;
    std::exception_ptr fault;
    std::atomic<Progress> progress{Progress::kWaits};
  };
  // Drops the job when its coroutine ends for any reason.
  template <class Work>
  struct Claim {
    explicit Claim(Job<Work>& claimed) : job(claimed) {}
    ~Claim() { job.drop(); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    Job<Work>& job;
  };

  IoContext& context_of(Lane lane);

  IoContext quick_, compiling_, slow_;
  std::vector<std::jthread> threads_;
};

template <class Work, class HasLeft>
boost::asio::awaitable<std::optional<std::invoke_result_t<Work&>>> WorkerPool::run(Lane lane, Work work,
                                                                                   HasLeft has_left) {
  constexpr std::chrono::milliseconds kAskEvery{100};  // also covers a wake-up lost for lack of memory
  const auto job = std::make_shared<Job<Work>>(co_await boost::asio::this_coro::executor, std::move(work));
  const Claim<Work> claim(*job);
  boost::asio::post(context_of(lane), [job] {
    if (!job->take(Progress::kRuns)) return;
    try {
      job->result.emplace((*job->work)());
    } catch (...) {
      job->fault = std::current_exception();
    }
    job->work.reset();
    job->progress.store(Progress::kDone, std::memory_order_release);
    Waker::notify({job, &job->waker});
  });
  while (job->progress.load(std::memory_order_acquire) != Progress::kDone) {
    const bool woken = co_await job->waker.wait(kAskEvery);
    if (woken) continue;
    const bool left = co_await has_left();
    if (left && job->drop()) co_return std::nullopt;
  }
  if (job->fault) std::rethrow_exception(job->fault);
  co_return std::move(job->result);
}

}  // namespace slip
