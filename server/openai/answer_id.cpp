// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_id.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace slip {

std::string http_id(Endpoint endpoint, RequestId id) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%s-%016llx", endpoint == Endpoint::kChat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(id.value));
  return text.data();
}

std::optional<RequestId> request_of_http_id(std::string_view id) {
  const auto dash = id.find('-');
  const std::string_view kind = id.substr(0, dash);
  if (dash == std::string_view::npos || (kind != "chatcmpl" && kind != "cmpl")) return std::nullopt;
  const std::string_view digits = id.substr(dash + 1);
  RequestId request;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), request.value, 16);
  const bool whole = status == std::errc() && end == digits.data() + digits.size();
  const auto endpoint = kind == "cmpl" ? Endpoint::kCompletion : Endpoint::kChat;
  if (!whole || request.value == 0 || http_id(endpoint, request) != id) return std::nullopt;
  return request;
}

}  // namespace slip
