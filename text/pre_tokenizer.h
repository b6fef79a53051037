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

// A text cut into the pieces that merges never cross. None of them is empty.
class TextPieces {
 public:
  explicit TextPieces(bool starts_text) : starts_text_(starts_text) {}
  void add(std::string_view piece);
  void end_piece();  // what was appended to text() since the last piece is one
  std::string& text() { return text_; }

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const;
  bool starts_text() const { return starts_text_; }  // the first piece begins where the whole text does
  void lose_start() { starts_text_ = false; }

 private:
  std::string text_;  // of all pieces
  std::vector<std::size_t> ends_;
  bool starts_text_;
};

// The steps of a tokenizer.json's "pre_tokenizer", nested sequences laid flat. Immutable; apply() from any thread.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // the text is one piece
  // Error{kUnsupported} naming the key of a step that is not implemented.
  static PreTokenizer read(const TokenizerFields& fields);

  // `starts_text`: nothing stands before `text` in what is tokenised. Error{kTooLarge | kInvalidArgument}.
  TextPieces apply(std::string_view text, bool starts_text) const;
  bool spells_bytes() const;  // some step turns text into the byte alphabet

  enum class Behavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    TextPattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // what lies between matches counts as the match
  };
  struct PrefixSpace {};   // a space before each piece that has none
  struct ByteAlphabet {};  // spells bytes in the byte alphabet
  struct Metaspace {
    enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
    std::string replacement;  // one character
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };
  struct Characters {  // each character with the property is a match
    bool (*matches)(std::int32_t code_point) = nullptr;
    Behavior behavior = Behavior::kIsolated;
  };
  using Step = std::variant<Split, PrefixSpace, ByteAlphabet, Metaspace, Characters>;

 private:
  std::vector<Step> steps_;
};

}  // namespace slip
