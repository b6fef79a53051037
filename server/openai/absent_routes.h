// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// What OpenAI's API, or what its clients take for a part of it, has at `path` and this server has not, as the beginning
// of a sentence: "/v1/rerank is not served: …". nullopt for any other path. Pure.
std::optional<std::string> absent_route(std::string_view path);

}  // namespace slip
