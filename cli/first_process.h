// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// The kernel gives the first process of a container no default for a signal: SIGTERM, SIGINT, SIGHUP and SIGQUIT would
// do nothing to it. Where this process is that one, they end it with status 128 + n from here on, until a command takes
// them itself (cli/stop_signal.h). Any other process keeps the kernel's defaults. Call before anything else.
void end_by_signals_as_first_process();

}  // namespace slip::cli
