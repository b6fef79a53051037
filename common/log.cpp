// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <spdlog/spdlog.h>
#include <string>

namespace slip {

namespace {

std::string escape_controls(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      out += c;
      continue;
    }
    out += "\\x";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

void write_line(spdlog::level::level_enum level, std::string_view message) noexcept {
  try {
    spdlog::log(level, "{}", escape_controls(message));
  } catch (...) {
    // No memory for a log line: nothing can be said about it.
  }
}

}  // namespace

void log_info(std::string_view message) noexcept {
  write_line(spdlog::level::info, message);
}

void log_warn(std::string_view message) noexcept {
  write_line(spdlog::level::warn, message);
}

void log_error(std::string_view message) noexcept {
  write_line(spdlog::level::err, message);
}

}  // namespace slip
