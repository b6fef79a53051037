// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// "a%20b" → "a b" (RFC 3986, 2.1). nullopt where two hexadecimal digits do not follow a percent sign. Pure.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace slip
