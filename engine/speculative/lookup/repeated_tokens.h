// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace slip {

// The number of tokens of an answer inside an 8-gram that occurred before in the same answer: a measure of repetition.
// Pure.
std::int32_t count_repeated_tokens(std::span<const std::int32_t> answer);

}  // namespace slip
