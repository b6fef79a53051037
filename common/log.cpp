// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"

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

// Writes each line by one write(2), so that lines of two processes do not mix either. The library's lock is held in
// sink_it_; the setters take the same.
class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set(LogFormat format, const std::filesystem::path& file) {
    FileHandle opened = open_log_file(file);
    const std::lock_guard lock(mutex_);
    format_ = format;
    path_ = file;
    file_ = std::move(opened);
  }
  void reopen() {
    const std::lock_guard lock(mutex_);
    if (!path_.empty()) file_ = open_log_file(path_);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
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
    const int fd = file_ ? file_.get() : STDERR_FILENO;
    const auto written = ::write(fd, line.data(), line.size());
    static_cast<void>(written);  // a full disk loses the line; there is nowhere to say so
  }
  void flush_() override {}

 private:
  spdlog::pattern_formatter time_{kTime, spdlog::pattern_time_type::utc, ""};
  LogFormat format_ = LogFormat::kText;
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
