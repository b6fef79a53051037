// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"
#include "common/lock_free_inbox.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

// C0 and DEL, and the C1 controls, which UTF-8 writes as C2 80 … C2 9F and terminals obey as well.
std::string escape_controls(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    if (byte >= 0x20 && byte != 0x7F && !c1) {
      out += text[i];
      continue;
    }
    const unsigned control = c1 ? next : byte;
    out += "\\x";
    out += kHex[control >> 4];
    out += kHex[control & 15];
    if (c1) ++i;
  }
  return out;
}

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ";

FileHandle open_log_file(const std::filesystem::path& file) {
  if (file.empty()) return {};
  FileHandle handle(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600));
  if (handle) return handle;
  throw Error(ErrorCode::kIo, "cannot open the log " + file.string() + ": " + std::strerror(errno), {}, "log.file");
}

constexpr std::size_t kMostPendingLines = 4096;

// Writes each line by one write(2), so that lines of two processes do not mix either.
//
// The engine's thread logs here, and so does the learner's, which may lose the processor at any point. So nobody waits
// for the thread that writes: a line goes into a lock-free inbox, and whoever holds the lock writes all there are.
class LineSink final : public spdlog::sinks::sink {
 public:
  void set(LogFormat format, const std::filesystem::path& file) {
    FileHandle opened = open_log_file(file);
    {
      const std::lock_guard lock(mutex_);
      write_all();  // what was logged before belongs to the file before
      format_ = format;
      path_ = file;
      file_ = std::move(opened);
    }
    write_pending();
  }
  void reopen() {
    {
      const std::lock_guard lock(mutex_);
      if (!path_.empty()) file_ = open_log_file(path_);
    }
    write_pending();
  }

  void log(const spdlog::details::log_msg& message) override {
    if (!lines_.push(line_of(message))) n_lost_.fetch_add(1, std::memory_order_relaxed);
    write_pending();
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

 private:
  std::string line_of(const spdlog::details::log_msg& message) const {
    thread_local spdlog::pattern_formatter formatter{kTime, spdlog::pattern_time_type::utc, ""};
    spdlog::memory_buf_t time;
    formatter.format(message, time);
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    std::string line;
    if (format_ == LogFormat::kJson) {
      line.append("{\"time\":\"").append(time.data(), time.size()).append("\",\"level\":\"");
      line.append(level.data(), level.size()).append("\",\"message\":").append(json_quoted(text)).append("}\n");
    } else {
      line.append(time.data(), time.size()).append(" ").append(level.data(), level.size());
      line.append(" ").append(escape_controls(text)).append("\n");
    }
    return line;
  }

  // A thread that finds the lock taken leaves its line to the holder, who looks again once the lock is free. Inbox and
  // fence are sequentially consistent, so one of the two sees the line.
  void write_pending() {
    while (!lines_.empty()) {
      {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock()) return;
        write_all();
      }
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }

  // REQUIRES: mutex_ is held.
  void write_all() {
    const int fd = file_ ? file_.get() : STDERR_FILENO;
    const auto put = [fd](const std::string& line) {
      const auto written = ::write(fd, line.data(), line.size());
      static_cast<void>(written);  // a full disk loses the line; there is nowhere to say so
    };
    for (const std::string& line : lines_.take_all()) put(line);
    const std::uint64_t lost = n_lost_.exchange(0, std::memory_order_relaxed);
    if (lost == 0) return;
    const std::string text =
        std::to_string(lost) + " lines of the log were lost: they came faster than they were written";
    put(line_of(spdlog::details::log_msg("slipstream", spdlog::level::warn, text)));
  }

  LockFreeInbox<std::string> lines_{kMostPendingLines};
  std::atomic<std::uint64_t> n_lost_{0};
  std::atomic<LogFormat> format_{LogFormat::kText};
  std::mutex mutex_;  // of what follows
  std::filesystem::path path_;
  FileHandle file_;
};

LineSink& sink() {
  // Never destroyed: a thread may log while static objects go away.
  static auto* const one = new LineSink;
  return *one;
}

spdlog::logger& logger() {
  static auto* const one = new spdlog::logger("slipstream", std::shared_ptr<LineSink>(&sink(), [](LineSink*) {}));
  return *one;
}

spdlog::level::level_enum library_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

void write_line(LogLevel level, std::string_view message) noexcept {
  try {
    const auto as_known_there = library_level(level);
    if (logger().should_log(as_known_there)) logger().log(as_known_there, "{}", message);
  } catch (...) {
    // No memory for a log line: nothing can be said about it.
  }
}

}  // namespace

void log_debug(std::string_view message) noexcept {
  write_line(LogLevel::kDebug, message);
}

void log_info(std::string_view message) noexcept {
  write_line(LogLevel::kInfo, message);
}

void log_warn(std::string_view message) noexcept {
  write_line(LogLevel::kWarn, message);
}

void log_error(std::string_view message) noexcept {
  write_line(LogLevel::kError, message);
}

void set_log(const LogOptions& options) {
  sink().set(options.format, options.file);
  set_log_level(options.level);
}

void reopen_log() {
  sink().reopen();
}

void set_log_level(LogLevel level) {
  logger().set_level(library_level(level));
}

const char* log_level_name(LogLevel level) {
  return kLevelNames[static_cast<std::size_t>(level)].data();
}

LogLevel parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no log level of that name", "use debug, info, warn, error or off",
              "log_level");
}

}  // namespace slip
