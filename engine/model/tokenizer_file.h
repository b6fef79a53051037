// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/byte_pair_merges.h"

namespace slip {

// What a tokenizer.json says, checked: ids are 0 … n − 1 without holes, every merge joins entries to an entry, every
// byte has a token.
struct TokenizerFile {
  enum class Kind : std::uint8_t { kVocabulary, kAdded, kSpecial };
  struct Entry {
    std::string content;  // as the file spells it
    std::string bytes;    // what it stands for in text
    Kind kind = Kind::kVocabulary;
  };
  std::vector<Entry> entries;  // by id
  std::vector<Merge> merges;   // by rank
  std::array<std::int32_t, 256> byte_ids{};
  std::string pattern;  // splits text before merging
};

// Throws Error{kUnsupported} naming the key for anything but byte-level BPE behind one split pattern, and
// Error{kInvalidArgument | kTooLarge} for files that contradict themselves. `where` names the file in messages.
TokenizerFile parse_tokenizer_file(std::string_view json, const std::string& where);

}  // namespace slip
