// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <thread>

#include "router/router.h"

namespace slip {

// Keeps a router's state on disk with a thread of its own: a crash loses at most the last interval's lessons. Nothing
// is written while nothing was learned. A disk that refuses is said once and tried again at each interval; routing and
// learning go on.
class RouterSaver {
 public:
  // `router` outlives the saver.
  RouterSaver(const Router& router, std::filesystem::path file, std::chrono::milliseconds interval);
  ~RouterSaver();  // stop()

  // Writes what is not yet written and ends the thread. Owner's thread; again is nothing.
  void stop();

 private:
  void run(const std::stop_token& stopping);
  void save();

  const Router& router_;
  const std::filesystem::path file_;
  const std::chrono::milliseconds interval_;
  std::uint64_t saved_lessons_;  // saver's thread, then stop()
  bool failing_ = false;         // likewise
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace slip
