// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace slip {

// The candidate that a mistyped name probably means: the smallest edit distance, where a candidate that begins with the
// whole name counts as near. Empty when none is close. Takes time in proportion to the length of `name`.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace slip
