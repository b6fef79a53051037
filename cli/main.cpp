// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/command.h"
#include "cli/process/address_room.h"
#include "cli/process/first_process.h"
#include "cli/process/stack_limit.h"
#include "cli/standard_output.h"
#include "common/error.h"
#include "common/escape_controls.h"
#include "common/file.h"

namespace {

int exit_status(slip::ErrorCode code) {
  switch (code) {
    case slip::ErrorCode::kInvalidArgument:
    case slip::ErrorCode::kUnsupported:
    case slip::ErrorCode::kNotFound:
    case slip::ErrorCode::kTooLarge:
      return 2;
    case slip::ErrorCode::kCancelled:
      return 130;
    case slip::ErrorCode::kInternal:
      return 70;
    default:
      return 1;
  }
}

// Prints an error after pending log lines. Prints nothing if standard error has no reader, since the process must end.
void say(const std::string& message, const std::string& hint) {
  if (!slip::writable_within(STDERR_FILENO, std::chrono::seconds(1))) return;
  std::cerr << "slipstream: " << slip::escape_controls(message) << "\n";
  if (!hint.empty()) std::cerr << "HINT: " << slip::escape_controls(hint) << "\n";
}

int refuse(const slip::Error& error) {
  say(error.message(), error.hint());
  return exit_status(error.code());
}

// True for errors caused by a limit of processes or memory, which are not our bugs.
bool is_refused_thread(const std::exception& error) {
  const auto* fault = dynamic_cast<const std::system_error*>(&error);
  return fault != nullptr && fault->code() == std::errc::resource_unavailable_try_again;
}

int refuse_thread(const std::exception& error) {
  return refuse({slip::ErrorCode::kIo, std::string("cannot start another thread: ") + error.what(),
                 "raise the limit of processes (ulimit -u) or of memory (ulimit -v), or set a lower --threads"});
}

// LibTorch's allocator has no exception of its own.
bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos;
}

int refuse_memory() {
  return refuse({slip::ErrorCode::kUnavailable, "there is not enough memory for this",
                 "raise the limit of memory (ulimit -v), or use smaller models"});
}

// Runs the command and returns its exit status.
int run(CLI::App& app, int argc, char** argv) {
  try {
    slip::cli::add_commands(app);  // reads SLIPSTREAM_ISA, which may be invalid
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {  // also --help and --version
    return app.exit(error) == 0 ? 0 : 2;
  }
}

// Ignores SIGHUP and SIGUSR1 in a service until it has read its configuration, since a supervisor may send one right
// after the start.
void ignore_reloads_of_a_service(int argc, char** argv, char** /*environment*/) {
  if (argc < 2 || std::string_view(argv[1]) != "serve") return;
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGUSR1, SIG_IGN);
}

// Ends the program if a limit leaves it too few addresses or too little data. LibTorch's constructors then abort, and a
// new thread for which jemalloc finds no room crashes. Here neither streams nor allocations work yet.
void require_addresses(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  if (slip::cli::address_room() >= slip::cli::kLeastAddressRoom) return;
  constexpr std::string_view kMessage =
      "slipstream: the limit of memory leaves fewer than 256 MiB beside the program and its libraries\n"
      "HINT: raise the limit (ulimit -v, ulimit -d), or use a limit of resident memory, such as a container's\n";
  static_cast<void>(!::write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  ::_exit(1);
}

// Run before the constructors of shared libraries, which take longer than the rest of the start. Each by itself: an
// array would be aligned to 16 bytes, and the loader would call the gap before it.
using FirstCall = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) FirstCall ignores_reloads = ignore_reloads_of_a_service;
__attribute__((section(".preinit_array"), used)) FirstCall requires_addresses = require_addresses;

}  // namespace

int main(int argc, char** argv) {
  slip::cli::hold_standard_descriptors();
  slip::cli::end_by_signals_as_first_process();
  ::signal(SIGXFSZ, SIG_IGN);  // beyond the file size limit a write then fails, as on a full disk
  CLI::App app{"Slipstream: a speculative-decoding server whose drafts keep learning from the traffic they serve."};
  try {
    slip::cli::allow_large_stacks();
    const int status = run(app, argc, argv);
    slip::cli::finish_standard_output();
    return status;
  } catch (const slip::Error& error) {
    return refuse(error);
  } catch (const std::filesystem::filesystem_error& error) {
    return refuse(slip::io_error(error));
  } catch (const std::exception& error) {
    if (is_refused_thread(error)) return refuse_thread(error);
    if (is_out_of_memory(error)) return refuse_memory();
    say(std::string("internal error: ") + error.what(), {});
    return 70;
  }
}
