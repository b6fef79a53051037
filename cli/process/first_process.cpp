// SPDX-License-Identifier: Apache-2.0
#include "cli/process/first_process.h"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace slip::cli {

void end_by_signals_as_first_process() {
  if (::getpid() != 1) return;
  struct sigaction action {};
  action.sa_handler = [](int number) { ::_exit(128 + number); };
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaction(number, &action, nullptr);
}

}  // namespace slip::cli
