// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace slip {
class Grammar;
}

namespace slip::cli {

// The grammar that --response-format asks for: `asked` is json_object, or else the name of a file that holds what
// `response_format` holds in a request; null for text. Throws Error{kInvalidArgument | kUnsupported | kNotFound |
// kTooLarge} naming the file and the way to what is wrong in it, as a request would be told.
std::shared_ptr<const Grammar> read_response_format_file(const std::string& asked);

}  // namespace slip::cli
