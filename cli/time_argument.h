// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace slip::cli {

// Reads "90s", "30m", "24h", "7d" or "2w" as microseconds. Error{kInvalidArgument} naming `flag`, as below.
std::int64_t parse_duration_us(const std::string& text, const std::string& flag);

// Reads "now", "2026-11-20", "2026-11-20T10:00" or "2026-11-20T10:00:00Z", all UTC, or an age before `now_us` such as
// 7d.
std::int64_t parse_instant_us(const std::string& text, const std::string& flag, std::int64_t now_us);

}  // namespace slip::cli
