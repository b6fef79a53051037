// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace slip {

inline constexpr std::size_t kMaxTopicNameBytes = 48;

// Whether a text may name a topic, or a draft, which has its topic's name: ^[a-z0-9][a-z0-9_-]{0,47}$. Names become
// folder names, and this alphabet keeps `../x` and NUL out of paths. Pure.
bool is_topic_name(std::string_view text);

}  // namespace slip
