// SPDX-License-Identifier: Apache-2.0
#include "cli/option_faults.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace slip::cli {
namespace {

template <class Integer>
std::optional<Integer> whole_number(const std::string& text) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::string shown(const std::string& text) {
  return "'" + text.substr(0, 64) + "'";
}

}  // namespace

std::string count_fault(const std::string& text) {
  if (whole_number<std::int32_t>(text).value_or(0) >= 1) return {};
  return shown(text) + " is no whole number from 1 to 2^31 - 1";
}

std::string nan_fault(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? shown(text) + " is no number" : std::string();
}

std::string seed_fault(const std::string& text) {
  if (whole_number<std::uint64_t>(text) || whole_number<std::int64_t>(text)) return {};
  return shown(text) + " is no whole number from -2^63 to 2^64 - 1";
}

}  // namespace slip::cli
