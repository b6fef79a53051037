// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip {

// A path that OpenAI's API or its clients have and this server has not.
struct AbsentRoute {
  std::string why;   // the beginning of a sentence: "/v1/rerank is not served: …"
  bool comes_later;  // the request is valid, this version does not support it: 400, else 404
};

// nullopt for any other path. Pure.
std::optional<AbsentRoute> absent_route(std::string_view path);

}  // namespace slip
