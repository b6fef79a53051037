// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// Explains a path that OpenAI's API or its clients have and this server has not, as the beginning of a sentence:
// "/v1/rerank is not served: …". nullopt for any other path. Pure.
std::optional<std::string> absent_route(std::string_view path);

}  // namespace slip
