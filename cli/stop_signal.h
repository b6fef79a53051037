// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/file.h"

namespace slip::cli {

// SIGTERM and SIGINT for a program that ends in order: the first is waited for, a second one ends the process at once
// with status 1. SIGPIPE is ignored. One object a process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();  // default handling again
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void wait() const;
  bool arrived() const;

 private:
  FileHandle read_end_, write_end_;
};

}  // namespace slip::cli
