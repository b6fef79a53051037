// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace slip {
class Grammar;
}

namespace slip::cli {

// The grammar of --response-format; null for text. `asked` is json_object, or the name of a file with a request's
// `response_format`. Throws Error{kInvalidArgument | kUnsupported | kNotFound | kTooLarge} naming the file and the path
// of the fault in it.
std::shared_ptr<const Grammar> read_response_format_file(const std::string& asked);

}  // namespace slip::cli
