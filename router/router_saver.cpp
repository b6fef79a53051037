// SPDX-License-Identifier: Apache-2.0
#include "router/router_saver.h"

#include <exception>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "router/router_state_file.h"

namespace slip {

RouterSaver::RouterSaver(const Router& router, std::filesystem::path file, std::chrono::milliseconds interval,
                         std::function<bool()> folder_gone)
    : router_(router),
      file_(std::move(file)),
      interval_(interval),
      folder_gone_(std::move(folder_gone)),
      saved_lessons_(router.lessons()),
      thread_([this](const std::stop_token& stopping) { run(stopping); }) {}

RouterSaver::~RouterSaver() {
  stop();
}

void RouterSaver::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  save();
}

void RouterSaver::run(const std::stop_token& stopping) {
  name_thread("router");
  prepare_thread_memory();
  std::unique_lock lock(mutex_);
  while (!stopping.stop_requested()) {
    wake_.wait_for(lock, stopping, interval_, [] { return false; });
    if (!stopping.stop_requested()) save();
  }
}

void RouterSaver::save() {
  if (router_.lessons() == saved_lessons_ || folder_gone_()) return;
  try {
    auto now = router_.snapshot();
    const RouterState state = router_state(*now.topics, std::move(now.classifier));
    write_router_state(file_, state);
    saved_lessons_ = state.classifier.lessons;
    if (std::exchange(failing_, false)) log_info("the router's state is saved again");
  } catch (const std::exception& error) {
    if (!std::exchange(failing_, true))
      log_parts(LogLevel::kWarn, {"cannot save the router's state, will retry: ", error.what()});
  }
}

}  // namespace slip
