// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_pattern.h"

namespace slip {

class TokenizerFields;

// The pieces of a text, none empty. Merges never cross a piece's border.
class TextPieces {
 public:
  explicit TextPieces(bool starts_text) : starts_text_(starts_text) {}
  void add(std::string_view piece);
  void end_piece();  // closes a piece: the bytes appended to text() since the last one
  std::string& text() { return text_; }

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const;
  bool starts_text() const { return starts_text_; }  // the first piece begins at the start of the whole text
  void lose_start() { starts_text_ = false; }

 private:
  std::string text_;  // all pieces, concatenated
  std::vector<std::size_t> ends_;
  bool starts_text_;
};

// The steps of a tokenizer.json's "pre_tokenizer", with nested sequences flattened. Immutable; apply() from any thread.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // keeps the text as one piece
  // Error{kUnsupported} naming the key of a step that is not implemented.
  static PreTokenizer read(const TokenizerFields& fields);

  // `starts_text`: `text` begins the whole input. Error{kTooLarge | kInvalidArgument}.
  TextPieces apply(std::string_view text, bool starts_text) const;
  bool spells_bytes() const;  // some step maps text to the byte alphabet

  enum class Behavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    TextPattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // swaps matches and the text between them
  };
  struct PrefixSpace {};   // adds a space to each piece that does not begin with one
  struct ByteAlphabet {};  // maps bytes to the byte alphabet
  struct Metaspace {
    enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
    std::string replacement;  // one character
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };
  struct Characters {  // each character with the property is one match
    bool (*matches)(std::int32_t code_point) = nullptr;
    Behavior behavior = Behavior::kIsolated;
  };
  using Step = std::variant<Split, PrefixSpace, ByteAlphabet, Metaspace, Characters>;

 private:
  std::vector<Step> steps_;
};

}  // namespace slip
