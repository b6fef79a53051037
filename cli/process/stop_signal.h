// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/file.h"

namespace slip::cli {

// Turns the signals of a command into values that one thread waits for. The first SIGTERM or SIGINT asks for an orderly
// end; a second one ends the process at once with status 1. SIGPIPE is ignored. SIGHUP and SIGUSR1 are handled after
// take_reloads(). One object per process, since the handlers are the process's.
class StopSignal {
 public:
  enum class Kind : std::uint8_t { kStop, kReload, kReopenLog };  // SIGTERM or SIGINT; SIGHUP; SIGUSR1

  StopSignal();   // installs the handlers; Error{kIo}
  ~StopSignal();  // sets the default actions again; SIGPIPE stays ignored
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // From here on SIGHUP and SIGUSR1 are reported by next() instead of ending the process.
  void take_reloads() const;
  // Waits for the next signal; several signals of one kind may be reported once. Threads: one.
  Kind next() const;
  bool arrived() const;       // whether next() would return at once
  bool stop_arrived() const;  // whether it would return kStop; any thread

 private:
  FileHandle read_end_, write_end_;
};

}  // namespace slip::cli
