// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/file.h"

namespace slip::cli {

// SIGTERM and SIGINT for a program that ends in order: the first is waited for, a second one ends the process at once
// with status 1. SIGPIPE is ignored. A service also takes SIGHUP and SIGUSR1. One object a process.
class StopSignal {
 public:
  enum class Kind : std::uint8_t { kStop, kReload, kReopenLog };

  StopSignal();
  ~StopSignal();  // the handling that a command starts with again
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From here on SIGHUP and SIGUSR1 wait for next() instead of ending the process.
  void take_reloads() const;
  // Waits for the next one; those of a kind that came together may be one.
  Kind next() const;
  bool arrived() const;

 private:
  FileHandle read_end_, write_end_;
};

}  // namespace slip::cli
