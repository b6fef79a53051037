// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "router/router.h"

namespace slip {

// Saves a router's state from a background thread, so a crash loses at most the last interval's lessons. Writes nothing
// if nothing was learned, or while the file's folder is gone. A write error is logged once and retried at each
// interval; routing and learning go on.
class RouterSaver {
 public:
  // `folder_gone`: whether the file's folder was deleted, moved or replaced, asked on the saver's threads before each
  // write. What it uses and `router` must outlive the saver.
  RouterSaver(const Router& router, std::filesystem::path file, std::chrono::milliseconds interval,
              std::function<bool()> folder_gone);
  ~RouterSaver();  // stop()

  // Writes unsaved lessons and ends the thread. Owner's thread; further calls do nothing.
  void stop();

 private:
  void run(const std::stop_token& stopping);
  void save();

  const Router& router_;
  const std::filesystem::path file_;
  const std::chrono::milliseconds interval_;
  const std::function<bool()> folder_gone_;
  std::uint64_t saved_lessons_;  // used by the saver's thread, then by stop()
  bool failing_ = false;         // as above
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace slip
