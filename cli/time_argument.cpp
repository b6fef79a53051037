// SPDX-License-Identifier: Apache-2.0
#include "cli/time_argument.h"

#include <array>
#include <charconv>
#include <ctime>
#include <optional>

#include "common/error.h"

namespace slip::cli {
namespace {

std::int64_t unit_seconds(const std::string& unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 3600;
  if (unit == "d") return 86400;
  return unit == "w" ? 604800 : 0;
}

std::optional<std::int64_t> duration_us(const std::string& text) {
  constexpr std::int64_t kMostSeconds = std::int64_t{100} * 366 * 86400;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::int64_t unit = unit_seconds(std::string(parsed.ptr, text.data() + text.size()));
  if (parsed.ec != std::errc{} || unit == 0 || number <= 0 || number > kMostSeconds / unit) return std::nullopt;
  return number * unit * 1'000'000;
}

// Replaces digits by 0, to compare the text's shape. strptime() alone accepts the year 26, blanks and one-digit months.
std::string shape_of(std::string text) {
  for (char& c : text) c = c >= '0' && c <= '9' ? '0' : c;
  return text;
}

struct DateForm {
  const char* shape;
  const char* format;
};
constexpr std::array<DateForm, 5> kDateForms = {{{"0000-00-00", "%Y-%m-%d"},
                                                 {"0000-00-00T00:00", "%Y-%m-%dT%H:%M"},
                                                 {"0000-00-00T00:00Z", "%Y-%m-%dT%H:%MZ"},
                                                 {"0000-00-00T00:00:00", "%Y-%m-%dT%H:%M:%S"},
                                                 {"0000-00-00T00:00:00Z", "%Y-%m-%dT%H:%M:%SZ"}}};

// strptime() accepts invalid dates, such as the 30th of February, and normalizes them.
std::optional<std::int64_t> date_us(const std::string& text, const char* format) {
  std::tm read{};
  const char* end = ::strptime(text.c_str(), format, &read);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::tm given = read;
  const std::time_t seconds = ::timegm(&read);
  const bool exists = read.tm_mday == given.tm_mday && read.tm_mon == given.tm_mon && read.tm_sec == given.tm_sec;
  if (!exists) return std::nullopt;
  return std::int64_t{seconds} * 1'000'000;
}

}  // namespace

std::int64_t parse_duration_us(const std::string& text, const std::string& flag) {
  if (const auto duration = duration_us(text)) return *duration;
  throw Error(ErrorCode::kInvalidArgument, flag + " takes a time such as 90s, 30m, 24h, 7d or 2w", "", flag);
}

std::int64_t parse_instant_us(const std::string& text, const std::string& flag, std::int64_t now_us) {
  if (text == "now") return now_us;
  if (const auto ago = duration_us(text)) return now_us - *ago;
  const std::string shape = shape_of(text);
  for (const DateForm& form : kDateForms) {
    if (shape != form.shape) continue;
    if (const auto instant = date_us(text, form.format)) return *instant;
  }
  throw Error(ErrorCode::kInvalidArgument,
              flag + " takes a UTC date such as 2026-11-20 or 2026-11-20T10:00:00Z, an age such as 24h or 7d, or now",
              "", flag);
}

}  // namespace slip::cli
