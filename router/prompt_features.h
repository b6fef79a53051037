// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace slip {

// The classifier's features: the set of a prompt's n-grams, each hashed to one of kFeatureBuckets. This is feature
// hashing (arXiv 0902.2206) without the sign bit; an n-gram counts once, so collisions cannot add up. The n-grams are
// character 2- and 3-grams, words, pairs of words, and the lead bytes of characters beyond ASCII, which indicate the
// script. ASCII letters are folded to lower case and digits to one symbol. White space counts as one space, or as one
// line feed if it contains one.
//
// A change of any of this invalidates stored weights: raise kFeatureVersion with it.
inline constexpr std::uint32_t kFeatureVersion = 1;
inline constexpr std::size_t kFeatureBuckets = std::size_t{1} << 14;
// Only the two ends of a longer text are read, since instructions are usually there. This limits a prompt's cost.
inline constexpr std::size_t kReadBytesEachEnd = 512;

// The distinct buckets, in order of first occurrence. Empty for a text without visible characters. Accepts any bytes;
// invalid UTF-8 is read byte by byte. Pure; any thread; linear in min(bytes, 1 KiB).
std::vector<std::uint32_t> prompt_features(std::string_view text);
// The same with a label that is not a topic's name: the label is read as a line before the text.
std::vector<std::uint32_t> prompt_features(std::string_view label, std::string_view text);

}  // namespace slip
