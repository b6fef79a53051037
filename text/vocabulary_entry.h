// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace slip {

struct VocabularyEntry {
  enum class Kind : std::uint8_t {
    kVocabulary,
    kAdded,
    kSpecial,
    kUnknown,  // SentencePiece's unknown token: decoded, but not as it is spelled
  };
  std::string content;  // the entry's spelling in the file
  std::string bytes;    // its bytes in decoded text
  Kind kind = Kind::kVocabulary;
  bool in_model = false;   // part of the BPE model; may also be an added token
  std::string normalized;  // its normalized content, for added tokens matched in normalized text

  const std::string& spelling() const { return normalized.empty() ? content : normalized; }
};

}  // namespace slip
