// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/disk_space.h"

namespace slip {

// Whether learning may run now. If the operator disabled it, observations are discarded and do not count as lost. If
// disk space or the data directory is missing, observations are lost and counted, and learning resumes by itself once
// there is room. Threads: any.
class LearningSwitch {
 public:
  explicit LearningSwitch(std::shared_ptr<DiskSpace> disk) : disk_(std::move(disk)) {}

  void set_wanted(bool wanted) { wanted_.store(wanted, std::memory_order_relaxed); }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  bool on() const { return wanted() && !(disk_ && disk_->pauses()); }

 private:
  const std::shared_ptr<DiskSpace> disk_;  // null: never pauses
  std::atomic<bool> wanted_{true};
};

}  // namespace slip
