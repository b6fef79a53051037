// SPDX-License-Identifier: Apache-2.0
#include "server/http/worker_pool.h"

#include <exception>

#include "common/log.h"
#include "common/thread_memory.h"
#include "distill/idle_priority.h"

namespace slip {
namespace {

// Two threads, so that a schema that takes over 100 ms to compile does not delay every chat.
constexpr int kQuickThreads = 2;
// Weight 36 against 1024 of a thread at nice 0 (sched(7)): 3 % of a contended core. At nice 10 the p99 of short chats
// beside thirty large /tokenize was 1.5 times as long.
constexpr int kSlowNice = 15;

}  // namespace

void run_handlers(boost::asio::io_context& context) noexcept {
  prepare_thread_memory();
  while (!context.stopped()) {
    try {
      context.run();
    } catch (const std::exception& fault) {
      log_parts(LogLevel::kError, {"a handler failed: ", fault.what()});
    }
  }
}

WorkerPool::WorkerPool()
    : quick_(kQuickThreads), slow_(1), quick_work_(quick_.get_executor()), slow_work_(slow_.get_executor()) {
  for (int i = 0; i < kQuickThreads; ++i) {
    threads_.emplace_back([this] { run_handlers(quick_); });
  }
  threads_.emplace_back([this] {
    set_nice(kSlowNice);
    run_handlers(slow_);
  });
}

WorkerPool::~WorkerPool() {
  stop();
}

void WorkerPool::stop() {
  quick_.stop();
  slow_.stop();
  threads_.clear();  // joins the threads
}

}  // namespace slip
