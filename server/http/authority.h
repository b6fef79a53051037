// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The host of "host" or "host:port" (RFC 3986, 3.2, without user information), brackets included for IPv6. The text is
// read to its end: nullopt when anything else stands in it, such as "127.0.0.1:80@evil.com". Pure.
std::optional<std::string_view> host_of_authority(std::string_view text);

// A request's target (RFC 9112, 3.2).
struct RequestTarget {
  std::string_view authority;  // of the absolute form, a view of the target; empty for the other forms
  std::string origin_form;     // path and query, or "*"
};
// nullopt for what is neither a path, nor an http or https address, nor "*" of OPTIONS. Pure.
std::optional<RequestTarget> parse_target(std::string_view method, std::string_view target);

}  // namespace slip
