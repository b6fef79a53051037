// SPDX-License-Identifier: Apache-2.0
#include "server/http/authority.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <cstdint>

namespace slip {
namespace {

constexpr std::size_t kMaxHostBytes = 255;  // RFC 1035, 2.3.4
constexpr std::size_t kMaxPortDigits = 5;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// RFC 3986, 3.2.2: unreserved characters, the percent of an escape, and sub-delimiters.
bool is_name_character(char c) {
  constexpr std::string_view kMarks = "-._~%!$&'()*+,;=";
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || kMarks.find(c) != std::string_view::npos;
}

bool is_address_character(char c) {
  return is_hex_digit(c) || c == ':' || c == '.';
}

// What may follow the host: nothing, or a colon and a port, which may be empty.
bool is_port(std::string_view rest) {
  if (rest.empty()) return true;
  const std::string_view digits = rest.substr(1);
  if (rest.front() != ':' || digits.size() > kMaxPortDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    return false;
  }
  std::uint16_t port = 0;
  return digits.empty() || std::from_chars(digits.data(), digits.data() + digits.size(), port).ec == std::errc();
}

bool is_visible(char c) {
  return c > ' ' && c < 0x7f;
}

}  // namespace

std::optional<std::string_view> host_of_authority(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  const auto end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && end == std::string_view::npos) return std::nullopt;
  const std::string_view host = text.substr(0, bracketed ? end + 1 : end);
  const std::string_view name = bracketed ? host.substr(1, host.size() - 2) : host;
  if (name.empty() || name.size() > kMaxHostBytes || !is_port(text.substr(host.size())) ||
      !std::all_of(name.begin(), name.end(), bracketed ? is_address_character : is_name_character)) {
    return std::nullopt;
  }
  return host;
}

std::optional<RequestTarget> parse_target(std::string_view method, std::string_view target) {
  if (!std::all_of(target.begin(), target.end(), is_visible) || target.find('#') != std::string_view::npos) {
    return std::nullopt;
  }
  if (target.starts_with('/') || (target == "*" && method == "OPTIONS")) return RequestTarget{{}, std::string(target)};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const auto end = rest.find_first_of("/?");
    const std::string_view authority = rest.substr(0, end);
    if (!host_of_authority(authority)) return std::nullopt;
    std::string path(end == std::string_view::npos ? std::string_view() : rest.substr(end));
    if (path.empty() && method == "OPTIONS") path = "*";  // RFC 9112, 3.2.4
    if (path.empty() || path.front() == '?') path.insert(path.begin(), '/');
    return RequestTarget{authority, std::move(path)};
  }
  return std::nullopt;
}

}  // namespace slip
