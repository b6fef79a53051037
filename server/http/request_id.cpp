// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace slip {
namespace {

constexpr std::size_t kMaxBytes = 128;

bool is_letter_or_digit(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_allowed(char c) {
  constexpr std::string_view kMarks = "._:/+=-";
  return is_letter_or_digit(c) || kMarks.find(c) != std::string_view::npos;
}

}  // namespace

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxBytes && is_letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

std::uint64_t new_request_number() {
  std::uint64_t number = 0;
  while (number == 0) {
    // Never fails for so few bytes, once the system has started.
    if (::getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
  }
  return number;
}

std::string request_id_text(std::uint64_t number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

}  // namespace slip
