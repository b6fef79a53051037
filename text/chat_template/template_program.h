// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "text/chat_template/template_tree.h"

namespace slip {

// Parse a chat template. Throws Error{kUnsupported} naming the first unsupported construct and its line, and
// Error{kTooLarge} for templates over 64 KiB.
std::vector<TemplateNode> parse_template(std::string_view source);

}  // namespace slip
