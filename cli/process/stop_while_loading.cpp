// SPDX-License-Identifier: Apache-2.0
#include "cli/process/stop_while_loading.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>

#include "common/log.h"

namespace slip::cli {
namespace {

constexpr std::chrono::milliseconds kAskEvery{50};
constexpr std::chrono::milliseconds kLogPatience{1000};

void await_stop(const std::stop_token& loaded, const StopSignal& signals) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!loaded.stop_requested() && !signals.stop_arrived()) {
    ended.wait_for(lock, loaded, kAskEvery, [] { return false; });
  }
  if (loaded.stop_requested()) return;  // the main thread ends in order
  log_info("stopped while the model was loading");
  flush_log(kLogPatience);
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

StopWhileLoading::StopWhileLoading(const StopSignal& signals)
    : thread_([&signals](const std::stop_token& loaded) { await_stop(loaded, signals); }) {}

}  // namespace slip::cli
