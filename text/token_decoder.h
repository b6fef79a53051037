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

// The "decoder" of a tokenizer.json: how token ids become text. It is kept in a form that can be streamed: per-token
// steps, applied once when the file is read, then concatenation of bytes, then trimming at the text's two ends. Other
// chains of steps are refused. Immutable.
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
    bool drop_in_first = true;           // in the first token, drops the spaces
    bool drop_only_leading_one = false;  // drops only one, and only at the token's start (SentencePiece)
  };
  struct ByteAlphabet {};  // characters of the byte alphabet stand for bytes
  struct ByteFallback {};  // <0x0A> stands for a byte
  using TokenStep = std::variant<Replace, Strip, Metaspace, ByteAlphabet, ByteFallback>;

  // Error{kUnsupported} naming the key of a step that is not implemented, or is out of order.
  static TokenDecoder read(const TokenizerFields& fields);
  // The decoder of SentencePiece models.
  static TokenDecoder sentence_piece(bool drop_leading_space, bool until_text);

  // The bytes of a token. `is_first`: it is the text's first token that is not special.
  std::string token_bytes(std::string_view content, bool is_first) const;
  Utf8Repair repair() const { return repair_; }
  const std::vector<Strip>& ends() const { return ends_; }  // applied in order to the whole text
  // Tokens without bytes do not end the text's beginning
  bool first_until_text() const { return first_until_text_; }

 private:
  void read_steps(const TokenizerFields& fields);
  void read_step(const TokenizerFields& fields, const std::string& type);
  std::vector<TokenStep> token_steps_;
  std::vector<Strip> ends_;
  Utf8Repair repair_ = Utf8Repair::kPerPart;
  bool first_until_text_ = false;
  // While reading: the current stage of the normal form.
  enum class Stage : std::uint8_t { kTokens, kBytes, kText };
  Stage stage_ = Stage::kTokens;
};

}  // namespace slip
