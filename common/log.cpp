// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <array>
#include <memory>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

std::shared_ptr<spdlog::logger> make_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto made = std::make_shared<spdlog::logger>("slipstream", std::move(sink));
  made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  made->flush_on(spdlog::level::trace);
  return made;
}

spdlog::logger& logger() {
  // Never destroyed: a thread may log while static objects go away.
  static auto* const one = new std::shared_ptr<spdlog::logger>(make_logger());
  return **one;
}

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
    if (logger().should_log(as_known_there)) logger().log(as_known_there, "{}", escape_controls(message));
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

void set_log_level(LogLevel level) {
  logger().set_level(library_level(level));
}

LogLevel parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no log level of that name", "use debug, info, warn, error or off",
              "log_level");
}

}  // namespace slip
