// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_head.h"

#include <algorithm>
#include <array>

#include "server/http/authority.h"

namespace slip {
namespace {

constexpr std::size_t kMaxLengthDigits = 16;
constexpr std::string_view kLineEnd = "\r\n";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// RFC 9110, 5.6.2.
bool is_token_character(char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || kMarks.find(c) != std::string_view::npos;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

// Headers that decide about access, routing or the body. If one occurs twice, a proxy may have read the other line.
constexpr std::array kOnceOnly = {"Authorization", "Origin", "Content-Type", "Content-Encoding", "X-Slipstream-Topic"};

// Counts of the headers that frame a message, and of those in kOnceOnly.
struct Framing {
  int lengths = 0, codings = 0, hosts = 0;
  std::array<int, kOnceOnly.size()> once_only{};
};

std::optional<std::string> fault_of_field(std::string_view line, Framing& framing) {
  if (line.front() == ' ' || line.front() == '\t') return "a header line is folded";
  const auto colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || name.empty() || !std::all_of(name.begin(), name.end(), is_token_character)) {
    return "a header line is not 'name: value'";
  }
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (std::any_of(value.begin(), value.end(), is_control)) return "a header holds a control character";
  if (equal_ignoring_case(name, "content-length")) {
    ++framing.lengths;
    if (value.empty() || value.size() > kMaxLengthDigits || !std::all_of(value.begin(), value.end(), is_digit)) {
      return "Content-Length is not a number of 1 to 16 digits";
    }
  } else if (equal_ignoring_case(name, "transfer-encoding")) {
    ++framing.codings;
    if (!equal_ignoring_case(value, "chunked")) return "Transfer-Encoding is not 'chunked'";
  } else if (equal_ignoring_case(name, "host")) {
    ++framing.hosts;
    if (!value.empty() && !host_of_authority(value)) return "Host is not a host name with or without a port";
  }
  for (std::size_t i = 0; i < kOnceOnly.size(); ++i) framing.once_only[i] += equal_ignoring_case(name, kOnceOnly[i]);
  return std::nullopt;
}

std::optional<std::string> fault_of_framing(const Framing& framing, bool http_1_0) {
  if (framing.lengths > 1) return "there is more than one Content-Length";
  if (framing.codings > 1) return "there is more than one Transfer-Encoding";
  if (framing.lengths > 0 && framing.codings > 0) return "Content-Length and Transfer-Encoding exclude each other";
  if (framing.codings > 0 && http_1_0) return "HTTP/1.0 has no Transfer-Encoding";
  if (framing.hosts > 1 || (framing.hosts == 0 && !http_1_0)) return "the request must have exactly one Host header";
  for (std::size_t i = 0; i < kOnceOnly.size(); ++i) {
    if (framing.once_only[i] > 1) return std::string("there is more than one ") + kOnceOnly[i];
  }
  return std::nullopt;
}

// A request line such as "GET /v1/models HTTP/1.1": three words separated by single blanks.
std::optional<std::string> fault_of_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  const std::string_view method = line.substr(0, first);
  const bool three = first != std::string_view::npos && first < last && line.find(' ', first + 1) == last;
  if (!three || method.empty() || !std::all_of(method.begin(), method.end(), is_token_character)) {
    return "the request line is not 'METHOD target HTTP/1.1'";
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!parse_target(method, target)) return "the request's target is neither a path nor an http address";
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return "the request is not HTTP/1.1 or HTTP/1.0";
  return std::nullopt;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<std::string> fault_of_partial_head(std::string_view bytes, std::size_t seen) {
  if (!bytes.empty() && !is_token_character(bytes.front())) return "a request does not begin like this";
  for (std::size_t i = seen; i < bytes.size(); ++i) {
    if (bytes[i] == '\n' && (i == 0 || bytes[i - 1] != '\r')) return "a line ends without CR";
    if (bytes[i] != '\n' && i > 0 && bytes[i - 1] == '\r') return "a CR stands alone";
    if (bytes[i] != '\n' && bytes[i] != '\r' && is_control(bytes[i])) return "the head holds a control character";
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_head(std::string_view head) {
  if (auto fault = fault_of_partial_head(head, 0)) return fault;
  auto end = head.find(kLineEnd);
  const std::string_view request_line = head.substr(0, end);
  if (auto fault = fault_of_request_line(request_line)) return fault;
  Framing framing;
  while (end != std::string_view::npos) {
    const auto begin = end + kLineEnd.size();
    end = head.find(kLineEnd, begin);
    const std::string_view line = head.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (line.empty()) break;
    if (auto fault = fault_of_field(line, framing)) return fault;
  }
  return fault_of_framing(framing, request_line.ends_with("1.0"));
}

}  // namespace slip
