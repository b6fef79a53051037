// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace slip {

// Text that remembers which of its bytes came from a message, through every cut and join. Only bytes of the template
// itself may be parsed as special tokens.
class TemplateText {
 public:
  TemplateText() = default;
  static TemplateText own(std::string bytes) { return {std::move(bytes), SpecialTokens::kParse}; }
  static TemplateText of_message(std::string bytes) { return {std::move(bytes), SpecialTokens::kAsText}; }
  TemplateText(std::string bytes, SpecialTokens specials);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  ByteRange whole() const { return {0, bytes_.size()}; }

  void append(const TemplateText& other) { append(other, other.whole()); }
  void append(const TemplateText& other, ByteRange part);
  void append_own(std::string_view bytes) { bytes_ += bytes; }
  TemplateText slice(ByteRange part) const;

  std::vector<TextPiece> pieces() const { return pieces(whole()); }
  std::vector<TextPiece> pieces(ByteRange part) const;  // non-empty pieces; adjacent ones differ in kind

 private:
  void mark(ByteRange of_message);

  std::string bytes_;
  std::vector<ByteRange> of_message_;  // ascending, non-empty, not adjacent
};

// Python's str methods on UTF-8: positions and lengths count characters, white space is Unicode's.
std::size_t n_characters(std::string_view text);
// The bytes of characters `begin` to `end` − 1; REQUIRES: begin ≤ end ≤ n_characters(text).
ByteRange character_range(std::string_view text, std::size_t begin, std::size_t end);
struct StripSides {
  bool left = true, right = true;
};
ByteRange stripped(std::string_view text, StripSides sides);
ByteRange stripped(std::string_view text, StripSides sides, std::string_view characters);

using TemplateTexts = std::vector<TemplateText>;
inline constexpr std::size_t kEverySplit = static_cast<std::size_t>(-1);  // no limit of cuts
// `most`: the most cuts, as Python's maxsplit. REQUIRES: separator is not empty
TemplateTexts split(const TemplateText& text, std::string_view separator, std::size_t most);
TemplateTexts split_from_right(const TemplateText& text, std::string_view separator, std::size_t most);
TemplateTexts split_at_white_space(const TemplateText& text);
TemplateTexts split_lines(const TemplateText& text);
// The number of texts that split() and split_from_right(), split_at_white_space(), and split_lines() return, without
// making them.
std::size_t n_parts(std::string_view text, std::string_view separator, std::size_t most);
std::size_t n_words(std::string_view text);
std::size_t n_lines(std::string_view text);
TemplateText replace(const TemplateText& text, std::string_view old, const TemplateText& by, std::size_t most);

// kFirstUpper: the text's first character only
enum class LetterCase : std::uint8_t { kUpper, kLower, kFirstUpper };
TemplateText with_case(const TemplateText& text, LetterCase to);
TemplateText with_words_capitalized(const TemplateText& text);  // Jinja's title filter

}  // namespace slip
