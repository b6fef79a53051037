// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace slip {

// Refuse request heads that two parsers may read differently (request smuggling). Checks the raw bytes, before a parser
// repairs them: bare CR or LF, control characters, folded lines, blanks around a header's name, more than one
// Content-Length or Transfer-Encoding or both, a length that is not 1 to 16 digits, a transfer coding other than
// "chunked", a repeated Host or other header that decides about access, a malformed Host or target. `head` ends with
// the empty line. Returns the reason, or nullopt. Pure.
std::optional<std::string> fault_of_head(std::string_view head);

// The same for a partial head: nullopt while it can still become valid. The first `seen` bytes were checked before.
std::optional<std::string> fault_of_partial_head(std::string_view bytes, std::size_t seen);

// A header's value without surrounding blanks (RFC 9110, 5.6.3).
std::string_view trimmed(std::string_view text);

// Calls `take(item)` for the items of a header's list, without the blanks around them. An empty list has one empty
// item.
template <class Take>
void for_each_item(std::string_view list, const Take& take) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto end = std::min(list.find(',', begin), list.size());
    take(trimmed(list.substr(begin, end - begin)));
    begin = end + 1;
  }
}

}  // namespace slip
