// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "cli/process/stop_signal.h"

namespace slip::cli {

// While it lives, SIGTERM and SIGINT end the process at once, with status 0. Loading a model may take a minute, and
// nothing of it has to be saved. The files are as after a crash at that moment, which they survive. `signals` outlives
// this object.
class StopWhileLoading {
 public:
  explicit StopWhileLoading(const StopSignal& signals);

 private:
  std::jthread thread_;
};

}  // namespace slip::cli
