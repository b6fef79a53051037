// SPDX-License-Identifier: Apache-2.0
#include "cli/process/stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "cli/process/first_process.h"
#include "common/error.h"

namespace slip::cli {
namespace {

// Signal handlers may only use lock-free atomics and write(2).
std::atomic<int> n_signals{0};
std::atomic<int> signal_pipe{-1};

constexpr char kStopByte = 'S', kReloadByte = 'H', kReopenByte = 'U';

void on_signal(int number) {
  const int saved = errno;
  const bool stop = number != SIGHUP && number != SIGUSR1;
  if (stop && n_signals.fetch_add(1) > 0) ::_exit(1);
  const char byte = stop ? kStopByte : number == SIGHUP ? kReloadByte : kReopenByte;
  const auto written = ::write(signal_pipe.load(), &byte, 1);
  static_cast<void>(written);
  errno = saved;
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw Error(ErrorCode::kIo, "cannot make a pipe");
  read_end_ = FileHandle(ends[0]);
  write_end_ = FileHandle(ends[1]);
  n_signals = 0;
  signal_pipe = ends[1];
  handle(SIGTERM, on_signal);
  handle(SIGINT, on_signal);
  handle(SIGPIPE, SIG_IGN);
}

StopSignal::~StopSignal() {
  handle(SIGTERM, SIG_DFL);
  handle(SIGINT, SIG_DFL);
  handle(SIGHUP, SIG_DFL);
  handle(SIGUSR1, SIG_DFL);
  end_by_signals_as_first_process();
  signal_pipe = -1;
}

void StopSignal::take_reloads() const {
  handle(SIGHUP, on_signal);
  handle(SIGUSR1, on_signal);
}

StopSignal::Kind StopSignal::next() const {
  std::array<char, 64> bytes{};
  bool reloads = false;
  // All that arrived meanwhile is one: a reload may take a second, and a stop must not wait for a queue of them.
  for (bool any = false;;) {
    for (ssize_t n = 0; (n = ::read(read_end_.get(), bytes.data(), bytes.size())) > 0; any = true) {
      reloads |= std::find(bytes.begin(), bytes.begin() + n, kReloadByte) != bytes.begin() + n;
    }
    // A full pipe drops bytes, perhaps a stop signal's, so ask the counter.
    if (n_signals > 0) return Kind::kStop;
    if (any) return reloads ? Kind::kReload : Kind::kReopenLog;
    pollfd state{read_end_.get(), POLLIN, 0};
    ::poll(&state, 1, -1);
  }
}

bool StopSignal::arrived() const {
  pollfd state{read_end_.get(), POLLIN, 0};
  return n_signals > 0 || ::poll(&state, 1, 0) == 1;
}

bool StopSignal::stop_arrived() const {
  return n_signals > 0;
}

}  // namespace slip::cli
