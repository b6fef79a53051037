// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

// Reads the `messages` of a chat request. Roles come from a fixed set (developer counts as system); content is a string
// or a list of text parts. Throws Error{kInvalidArgument | kUnsupported} naming the place, such as
// "messages[2].content[0].type".
std::vector<ChatMessage> parse_messages(const nlohmann::json& messages);

// Reads a `content`: a string, or a list of text parts, which are joined. Errors likewise, named from `place` on.
std::string parse_content(const nlohmann::json& content, const std::string& place);

}  // namespace slip
