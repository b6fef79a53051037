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
  std::filesystem::path file;  // appended to, made with mode 0600; empty: standard error
};

// One line to standard error or the log's file, control characters escaped (a peer's text cannot forge a line or move a
// terminal's cursor). Standard output belongs to results. Only log.cpp knows the logging library, whose headers clash
// with those LibTorch bundles. Any thread; never throws, nor waits for a thread that writes: that one takes the line.
// Without a BackgroundLog the caller writes the line itself and waits for whoever reads it.
void log_debug(std::string_view message) noexcept;
void log_info(std::string_view message) noexcept;
void log_warn(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

// The same for a line of several parts, put together within: a line that there is no memory for is dropped and counted.
void log_parts(LogLevel level, std::initializer_list<std::string_view> parts) noexcept;

// While it lives, a thread of its own writes the log, so that a reader who stalls stops no thread that logs. At most
// 4,096 lines and 32 MiB wait for it; further lines are dropped and counted, and a line says how many were once writing
// goes on. One at a time in a process. Threads: made and destroyed by one.
class BackgroundLog {
 public:
  BackgroundLog();  // Error{kIo} without a file descriptor or a thread
  // Waits at most a second until the lines so far are written. A writer whose reader has stalled is left behind, and
  // the process can end without it.
  ~BackgroundLog();
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;
};

// Returns when every line so far is written: true; or after `patience`: false. Any thread.
bool flush_log(std::chrono::milliseconds patience);
// Lines that could not be written since the process began: too many waited, the disk or the pipe refused, or there was
// no memory. Any thread.
std::uint64_t log_lines_dropped();

// Takes effect with the next line; waits at most a second for the lines before it. Error{kIo} when the file cannot be
// opened: everything stays as it was. Any thread.
void set_log(const LogOptions& options);
// Opens the log's file anew by its name, after a rotation has moved the old one away; lines are never torn between the
// two. Error{kIo}: the old one is kept.
void reopen_log();

// Lines below `level` are not written; kInfo until set. Any thread.
void set_log_level(LogLevel level);
// "debug", "info", "warn", "error" or "off"; Error{kInvalidArgument} naming the choices.
LogLevel parse_log_level(std::string_view name);
const char* log_level_name(LogLevel level);

}  // namespace slip
