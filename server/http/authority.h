// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The host of "host" or "host:port" (RFC 3986, 3.2, without user information); IPv6 hosts keep their brackets. The
// whole text must match: nullopt for other text, such as "127.0.0.1:80@evil.com". Pure.
std::optional<std::string_view> host_of_authority(std::string_view text);

// A request's target (RFC 9112, 3.2).
struct RequestTarget {
  std::string_view authority;  // of the absolute form, a view of the target; empty for other forms
  std::string origin_form;     // path and query, or "*"
};
// nullopt unless the target is a path, an http or https URL, or "*" with OPTIONS. Pure.
std::optional<RequestTarget> parse_target(std::string_view method, std::string_view target);

}  // namespace slip
