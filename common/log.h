// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace slip {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : std::uint8_t {
  kText,  // 2026-11-21T10:22:18.123Z warning message
  kJson,  // {"time":"2026-11-21T10:22:18.123Z","level":"warning","message":"message"}
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::filesystem::path file;  // appended to, created with mode 0600; empty: standard error
};

// Log one line to standard error or the log file. Control characters are escaped, so a peer's text cannot forge a line
// or control a terminal. Standard output is for results only. Only log.cpp includes the logging library, whose headers
// clash with LibTorch's bundled ones.
// Any thread; never throws and never waits for another writing thread, which then takes the line. Without a
// BackgroundLog the caller writes the line itself and may block on the log's reader.
void log_debug(std::string_view message) noexcept;
void log_info(std::string_view message) noexcept;
void log_warn(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

// Logs one line made of several parts. If memory is exhausted, the line is dropped and counted.
void log_parts(LogLevel level, std::initializer_list<std::string_view> parts) noexcept;

// A background thread that writes the log while this object lives, so a stalled reader blocks no logging thread. At
// most 4,096 lines and 32 MiB wait; further lines are dropped and counted, and a later line reports the count. One per
// process at a time. Threads: made and destroyed by one.
class BackgroundLog {
 public:
  BackgroundLog();  // Error{kIo} without a file descriptor or a thread
  // Waits at most a second until pending lines are written. If the reader has stalled, the thread is abandoned and the
  // process can still end.
  ~BackgroundLog();
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;
};

// Waits until all lines so far are written: true; or until `patience` has passed: false. Any thread.
bool flush_log(std::chrono::milliseconds patience);
// Lines lost since the process began: too many pending, a write error, or no memory. Any thread.
std::uint64_t log_lines_dropped();

// Changes the log's options from the next line on; waits at most a second for earlier lines. Error{kIo} when the file
// cannot be opened; nothing changes then. Any thread.
void set_log(const LogOptions& options);
// Reopens the log file by name, after log rotation moved the old one. No line is split between the two. Error{kIo}: the
// old file stays in use.
void reopen_log();

// Drops lines below `level`; the default is kInfo. Any thread.
void set_log_level(LogLevel level);
// Reads "debug", "info", "warn", "error" or "off"; Error{kInvalidArgument} names the choices.
LogLevel parse_log_level(std::string_view name);
const char* log_level_name(LogLevel level);

}  // namespace slip
