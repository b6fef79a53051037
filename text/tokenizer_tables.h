// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/post_processor.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"
#include "text/vocabulary_entry.h"

namespace slip {

// Encodes text without added tokens. tokenizer.json and tokenizer.model each have an implementation. Immutable.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the ids of text[section]; a section that begins at 0 begins the text. `parsed` refers to `text`, as in
  // AddedTokens::find.
  virtual void encode(std::string_view text, ByteRange section, std::span<const ByteRange> parsed,
                      std::vector<std::int32_t>& out) const = 0;
};

struct Tokenizer::Tables {
  std::vector<VocabularyEntry> entries;  // by id
  AddedTokens added;                     // those matched in the raw text
  std::unique_ptr<const TextEncoder> encoder;
  TokenDecoder decoder;
  PostProcessor post_processor;
  std::unordered_map<std::string_view, std::int32_t> ids;  // by content; the keys point into `entries`

  const VocabularyEntry* entry(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries.size() ? &entries[static_cast<std::size_t>(id)] : nullptr;
  }
  // The entry's bytes at the beginning of a text.
  std::string first_bytes(const VocabularyEntry& entry) const {
    return entry.kind == VocabularyEntry::Kind::kUnknown ? entry.bytes
                                                         : decoder.token_bytes(entry.spelling(), /*is_first=*/true);
  }
  std::vector<std::int32_t> encode(std::string_view text, std::span<const ByteRange> parsed) const;
};

}  // namespace slip
