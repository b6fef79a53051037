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

// The first step of tokenizing: a tokenizer.json's "normalizer", with nested sequences flattened. Immutable; apply()
// from any thread. Bytes that are not UTF-8 pass through unchanged.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // Error{kUnsupported} naming the key of a step that is not implemented.
  static Normalizer read(const TokenizerFields& fields);

  bool is_identity() const { return steps_.empty(); }
  bool spells_bytes() const;  // some step maps text to the byte alphabet
  // Error{kTooLarge} when the text grows beyond 256 MiB.
  std::string apply(std::string_view text) const;

  // The steps, public for the tests.
  enum class Form : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };
  struct Lowercase {};
  struct StripAccents {};  // drops all combining marks
  struct ByteLevel {};     // maps bytes to the byte alphabet
  struct Strip {
    bool left = true, right = true;
  };
  struct Prepend {
    std::string text;  // prepended to any text that is not empty
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

// Replaces all matches of `pattern`. Error{kTooLarge} beyond 256 MiB.
std::string replace_all(std::string_view text, const TextPattern& pattern, std::string_view by);

}  // namespace slip
