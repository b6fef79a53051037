// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/file.h"

namespace slip::cli {

// Handles SIGTERM and SIGINT for an orderly end: the first is reported by next(), the second ends the process at once
// with status 1. SIGPIPE is ignored. A service also handles SIGHUP and SIGUSR1. One object per process.
class StopSignal {
 public:
  enum class Kind : std::uint8_t { kStop, kReload, kReopenLog };

  StopSignal();
  ~StopSignal();  // restores the handlers from before
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From here on SIGHUP and SIGUSR1 are reported by next() instead of ending the process.
  void take_reloads() const;
  // Waits for the next signal. Signals of one kind may be merged.
  Kind next() const;
  bool arrived() const;

 private:
  FileHandle read_end_, write_end_;
};

}  // namespace slip::cli
