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
    kUnknown,  // SentencePiece's: shown, but not as it is spelled
  };
  std::string content;  // as the file spells it
  std::string bytes;    // what it stands for in text
  Kind kind = Kind::kVocabulary;
  bool in_model = false;   // merges can end in it; an added token may be both
  std::string normalized;  // of an added token that is looked for in normalized text: its content, normalized

  const std::string& spelling() const { return normalized.empty() ? content : normalized; }
};

}  // namespace slip
