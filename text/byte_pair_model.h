// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_pair_merges.h"
#include "text/vocabulary_entry.h"

namespace slip {

struct BytePairOptions {
  std::int32_t unknown = -1;   // id for characters without an entry; −1: such characters are dropped
  bool fuse_unknown = false;   // one unknown token for a run of such characters
  bool byte_fallback = false;  // use the tokens of the character's bytes, where they exist
  bool ignore_merges = false;  // a piece that is an entry becomes that entry without merging
};

// Byte-pair encoding over characters: each character of a piece becomes its entry, then pairs merge. Text never
// produces special tokens. Immutable; encode() from any thread.
class BytePairModel {
 public:
  BytePairModel(const std::vector<VocabularyEntry>& entries, std::vector<Merge> merges, BytePairOptions options);

  // Working memory of encode(), reused by the caller for several pieces.
  struct Scratch {
    std::vector<std::int32_t> symbols;
    BytePairMerges::Scratch merges;
  };
  void encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  static constexpr std::size_t kTableSize = 0x200;  // covers the byte alphabet
  std::int32_t character_id(std::int32_t code_point) const;
  bool append_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const;

  BytePairMerges merges_;
  BytePairOptions options_;
  std::array<std::int32_t, kTableSize> low_characters_;  // by code point; −1: no entry
  std::unordered_map<std::int32_t, std::int32_t> high_characters_;
  std::array<std::int32_t, 256> bytes_;                   // "<0x00>" …; −1: no entry
  std::unordered_map<std::string, std::int32_t> pieces_;  // filled only with ignore_merges
};

}  // namespace slip
