// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_pattern.h"
#include "text/utf8.h"

namespace slip {

class TokenizerFields;

// What ids become when they are shown: a tokenizer.json's "decoder". It is kept in a normal form that can be streamed:
// steps that look at one token alone, which are done once, when the file is read; then the tokens' bytes in a row; then
// what is cut off the whole text's ends. Chains that do not have that form are refused. Immutable.
class TokenDecoder {
 public:
  struct Replace {
    TextPattern pattern;
    std::string by;
  };
  struct Strip {
    std::string content;  // one character
    std::size_t start = 0, stop = 0;
  };
  struct Metaspace {
    std::string replacement;             // one character
    bool drop_in_first = true;           // the first token's are no spaces but left out
    bool drop_only_leading_one = false;  // and of those only one that the token begins with (SentencePiece)
  };
  struct ByteAlphabet {};  // what is spelled in the byte alphabet stands for bytes
  struct ByteFallback {};  // <0x0A> is a byte
  using TokenStep = std::variant<Replace, Strip, Metaspace, ByteAlphabet, ByteFallback>;

  // Error{kUnsupported} naming the key of a step that is not implemented, or not at its place in the chain.
  static TokenDecoder read(const TokenizerFields& fields);
  // SentencePiece's rule.
  static TokenDecoder sentence_piece(bool drop_leading_space, bool until_text);

  // The bytes a token stands for; of the text's first token that is not special when `is_first`.
  std::string token_bytes(std::string_view content, bool is_first) const;
  Utf8Repair repair() const { return repair_; }
  const std::vector<Strip>& ends() const { return ends_; }     // in order, of the whole text
  bool first_until_text() const { return first_until_text_; }  // tokens without bytes do not end the beginning

 private:
  void read_steps(const TokenizerFields& fields);
  void read_step(const TokenizerFields& fields, const std::string& type);
  std::vector<TokenStep> token_steps_;
  std::vector<Strip> ends_;
  Utf8Repair repair_ = Utf8Repair::kPerPart;
  bool first_until_text_ = false;
  // While reading: how far along the normal form the chain is.
  enum class Stage : std::uint8_t { kTokens, kBytes, kText };
  Stage stage_ = Stage::kTokens;
};

}  // namespace slip
