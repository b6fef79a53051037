// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// What two parsers could read in two ways is how requests are smuggled, so it is refused here, on the raw bytes, before
// any parser repairs it: bare CR or LF, control characters, folded lines, blanks around a header's name, more than one
// Content-Length or Transfer-Encoding or both, a length that is not 1 to 16 digits, any coding but "chunked", two
// Hosts, two of another header that decides who may come in, a Host or target with more in it than such a thing has.
// `head` ends with the empty line. The reason, or nullopt. Pure.
std::optional<std::string> fault_of_head(std::string_view head);

// The same for what has arrived of a head: nullopt while it can still become one. `seen` bytes were looked at before.
std::optional<std::string> fault_of_partial_head(std::string_view bytes, std::size_t seen);

// A header's value without the blanks around it (RFC 9110, 5.6.3).
std::string_view trimmed(std::string_view text);

}  // namespace slip
