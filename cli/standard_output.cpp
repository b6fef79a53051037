// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "common/error.h"

namespace slip::cli {

void hold_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is this one. Where /dev/stdout is written to by that name, it is
    // opened anew for writing, which /dev/full refuses and /dev/null would not.
    const char* const device =
        descriptor == STDOUT_FILENO && ::access("/dev/full", F_OK) == 0 ? "/dev/full" : "/dev/null";
    if (::open(device, descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

void finish_standard_output() {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  if (std::cout.good() && flushed && std::ferror(stdout) == 0) return;
  // An earlier failure is recorded in the stream, but its errno is not.
  const std::string reason = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  throw Error(ErrorCode::kIo, "not everything could be written to standard output" + reason);
}

void forget_standard_output_failure() {
  std::cout.clear();
  std::clearerr(stdout);
}

}  // namespace slip::cli
