// SPDX-License-Identifier: Apache-2.0
#include "server/http/worker_pool.h"

#include <exception>

#include "common/log.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "common/thread_priority.h"

namespace slip {
namespace {

constexpr int kQuickThreads = 2;
// Weight 110 against 1024 of a thread at nice 0 (sched(7)): a tenth of a contended core, so that a chat in a form
// does not wait for seconds, and many new schemas leave the engine its cores. At nice 5 the p99 of short chats beside
// thirty clients with new schemas was 1.35 times as long.
constexpr int kCompilingNice = 10;
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

WorkerPool::WorkerPool() : quick_(kQuickThreads), compiling_(1), slow_(1) {
  for (int i = 0; i < kQuickThreads; ++i) {
    threads_.emplace_back([this] {
      name_thread("worker");
      run_handlers(quick_);
    });
  }
  const auto run_niced = [this](int nice, IoContext& context) {
    threads_.emplace_back([nice, &context] {
      name_thread("worker");
      set_nice(nice);
      run_handlers(context);
    });
  };
  run_niced(kCompilingNice, compiling_);
  run_niced(kSlowNice, slow_);
}

WorkerPool::~WorkerPool() {
  stop();
}

IoContext& WorkerPool::context_of(Lane lane) {
  return lane == Lane::kQuick ? quick_ : lane == Lane::kCompiling ? compiling_ : slow_;
}

void WorkerPool::stop() {
  for (IoContext* context : {&quick_, &compiling_, &slow_}) context->stop();
  threads_.clear();  // joins the threads
}

}  // namespace slip
