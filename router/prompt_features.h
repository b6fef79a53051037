// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace slip {

// What the classifier sees of a prompt: the set of its n-grams, each hashed to one of kFeatureBuckets (feature hashing,
// arXiv 0902.2206, without the sign bit: an n-gram counts once however often it occurs, so that collisions cannot add
// up). They are character 2- and 3-grams, single words, pairs of words, and the lead bytes of characters beyond ASCII,
// which roughly say the script. ASCII letters are folded to lower case and digits to one; white space counts as one
// space or, where it breaks a line, as one line feed.
//
// Changing any of this makes stored weights meaningless: raise kFeatureVersion with it.
inline constexpr std::uint32_t kFeatureVersion = 1;
inline constexpr std::size_t kFeatureBuckets = std::size_t{1} << 14;
// Of a longer text only its beginning and its end are read, where instructions stand; so no prompt costs more than
// this.
inline constexpr std::size_t kReadBytesEachEnd = 512;

// The distinct buckets, in the order in which they first occur. Empty for a text without a character that shows.
// Any bytes will do: what is no UTF-8 is taken byte by byte. Pure; any thread; linear in min(bytes, 1 KiB).
std::vector<std::uint32_t> prompt_features(std::string_view text);
// The same for a text with a label that is no topic's name: the label is read as one more line before it.
std::vector<std::uint32_t> prompt_features(std::string_view label, std::string_view text);

}  // namespace slip
