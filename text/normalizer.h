// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/text_pattern.h"

namespace slip {

class TokenizerFields;

// What a tokenizer does to text before anything else: the steps of a tokenizer.json's "normalizer", nested sequences
// laid flat. Immutable; apply() from any thread. Bytes that are not UTF-8 pass through unchanged.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // Error{kUnsupported} naming the key of a step that is not implemented.
  static Normalizer read(const TokenizerFields& fields);

  bool is_identity() const { return steps_.empty(); }
  bool spells_bytes() const;  // some step turns text into the byte alphabet
  // Error{kTooLarge} when the text grows beyond 256 MiB.
  std::string apply(std::string_view text) const;

  // The steps, public for their tests.
  enum class Form : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };
  struct Lowercase {};
  struct StripAccents {};  // drops combining marks of all kinds
  struct ByteLevel {};     // spells bytes in the byte alphabet
  struct Strip {
    bool left = true, right = true;
  };
  struct Prepend {
    std::string text;  // goes before any text but an empty one
  };
  struct Replace {
    TextPattern pattern;
    std::string by;
  };
  using Step = std::variant<Form, Lowercase, StripAccents, ByteLevel, Strip, Prepend, Replace>;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

 private:
  std::vector<Step> steps_;
};

// Replaces what `pattern` matches. Error{kTooLarge} beyond 256 MiB.
std::string replace_all(std::string_view text, const TextPattern& pattern, std::string_view by);

}  // namespace slip
