// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace slip {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError, kOff };

// One line to standard error, `2026-11-21T10:22:18.123Z warning message`, with control characters escaped (a file name
// or a peer's text cannot forge a line or move a terminal's cursor). Standard output belongs to results. The one place
// that knows the logging library, whose headers clash with those LibTorch bundles. Any thread; never throws.
void log_debug(std::string_view message) noexcept;
void log_info(std::string_view message) noexcept;
void log_warn(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

// Lines below `level` are not written; kInfo until set. Any thread.
void set_log_level(LogLevel level);
// "debug", "info", "warn", "error" or "off"; Error{kInvalidArgument} naming the choices.
LogLevel parse_log_level(std::string_view name);

}  // namespace slip
