// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <thread>
#include <vector>

namespace slip {

// Runs a context's handlers on the calling thread until the context is stopped or has no work left. A handler that
// throws is logged and ends nothing but itself.
void run_handlers(boost::asio::io_context& context) noexcept;

// Threads for parsing, tokenising, compiling schemas and reading files, which would keep an I/O thread's connections
// waiting. Slow work has a thread of its own, so that a short request never waits for it. Threads: any.
class WorkerPool {
 public:
  enum class Lane : std::uint8_t {
    kQuick,  // requests of milliseconds
    kSlow,   // one after the other, so that only one takes memory; at nice 10, so that the engine keeps its cores
  };

  WorkerPool();
  ~WorkerPool();  // stop()

  boost::asio::any_io_executor executor(Lane lane);
  // Waits for the jobs under way. Jobs that have not begun never run; they are freed with the pool.
  void stop();

 private:
  boost::asio::io_context quick_, slow_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> quick_work_, slow_work_;
  std::vector<std::jthread> threads_;
};

}  // namespace slip
