// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Installs signal handlers if this is a container's first process (PID 1). The kernel gives PID 1 no default action, so
// SIGTERM, SIGINT, SIGHUP and SIGQUIT would be ignored. They now exit with status 128 + n, until a command handles them
// itself (cli/process/stop_signal.h). Other processes keep the kernel's defaults. Call it first.
void end_by_signals_as_first_process();

}  // namespace slip::cli
