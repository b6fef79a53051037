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

// The "decoder" of a tokenizer.json: the steps that turn tokens into text. Only chains that can be streamed are read:
// first steps on each token alone, then concatenation of the tokens' bytes, then trimming at the two ends of the text.
// Immutable; any thread.
class TokenDecoder {
 public:
  struct Replace {
    TextPattern pattern;
    std::string by;
  };
  struct Strip {
    std::string content;              // one character
    std::size_t start = 0, stop = 0;  // how often it is removed at most: at the start, at the end
  };
  struct Metaspace {
    std::string replacement;             // one character, which becomes a space
    bool drop_in_first = true;           // in the text's first token it is dropped instead
    bool drop_only_leading_one = false;  // … but only at the token's start, and only one (SentencePiece)
  };
  struct ByteAlphabet {};  // each character stands for a byte, as in GPT-2's byte-level BPE
  struct ByteFallback {};  // a token such as <0x0A> stands for a byte
  using TokenStep = std::variant<Replace, Strip, Metaspace, ByteAlphabet, ByteFallback>;

  // Error{kUnsupported} for a step that is not implemented or out of order, Error{kInvalidArgument} for malformed
  // fields and too many steps; both name the key.
  static TokenDecoder read(const TokenizerFields& fields);
  // The decoder of SentencePiece models. `drop_leading_space`: Metaspace::drop_in_first. `until_text`:
  // first_until_text().
  static TokenDecoder sentence_piece(bool drop_leading_space, bool until_text);

  // The bytes of a token, by the steps on each token alone. `is_first`: it is the text's first token. Special tokens
  // are not counted, nor are tokens without bytes if first_until_text().
  std::string token_bytes(std::string_view content, bool is_first) const;
  Utf8Repair repair() const { return repair_; }             // of invalid UTF-8 in the text's bytes
  const std::vector<Strip>& ends() const { return ends_; }  // applied in order to the two ends of the whole text
  // Whether tokens without bytes are skipped in the search for the text's first token.
  bool first_until_text() const { return first_until_text_; }

 private:
  void read_steps(const TokenizerFields& fields);
  void read_step(const TokenizerFields& fields, const std::string& type);
  std::vector<TokenStep> token_steps_;
  std::vector<Strip> ends_;
  Utf8Repair repair_ = Utf8Repair::kPerPart;
  bool first_until_text_ = false;
  // While reading: the steps that may still come. kTokens: any. kBytes: only Fuse. kText: only Fuse and Strip.
  enum class Stage : std::uint8_t { kTokens, kBytes, kText };
  Stage stage_ = Stage::kTokens;
};

}  // namespace slip
