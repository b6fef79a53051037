// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace slip {

// One line to the log, control characters escaped (a file name or a peer's text cannot forge a line). The one place
// that knows the logging library, whose headers clash with those LibTorch bundles. Any thread; never throws.
void log_info(std::string_view message) noexcept;
void log_warn(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

}  // namespace slip
