// SPDX-License-Identifier: Apache-2.0
#include "cli/seed_fault.h"

#include <charconv>
#include <cstdint>

namespace slip::cli {
namespace {

template <class Integer>
bool is_one(const std::string& text) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end;
}

}  // namespace

std::string seed_fault(const std::string& text) {
  if (is_one<std::uint64_t>(text) || is_one<std::int64_t>(text)) return {};
  return "'" + text.substr(0, 64) + "' is no whole number from -2^63 to 2^64 - 1";
}

}  // namespace slip::cli
