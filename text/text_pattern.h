// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace slip {

class TokenizerFields;

// A part of a text, and whether the pattern matched it. A match may be empty.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

// A literal or a regular expression, matched from left to right. A value type; cut() from any thread.
class TextPattern {
 public:
  // Error{kUnsupported} when PCRE2 cannot compile the expression, Error{kTooLarge} when it is over 16 KiB.
  static TextPattern regex(const std::string& expression);
  static TextPattern literal(std::string text);  // REQUIRES: not empty
  // {"String": …} or {"Regex": …} under `key`.
  static TextPattern read(const TokenizerFields& fields, const char* key);

  using Visitor = std::function<void(const TextSpan&)>;
  // Visits the whole of `text` in order, matches and the parts between them. Each run of invalid UTF-8 is a span
  // without a match. Error{kInvalidArgument} when a match exceeds the backtracking limit. (A list of spans would take
  // several times the text's memory.)
  void cut(std::string_view text, const Visitor& visit) const;

 private:
  struct Compiled;
  TextPattern(std::shared_ptr<const Compiled> compiled, std::string literal)
      : compiled_(std::move(compiled)), literal_(std::move(literal)) {}
  void cut_valid(std::string_view text, std::size_t offset, const Visitor& visit) const;
  void cut_at_literal(std::string_view text, const Visitor& visit) const;

  std::shared_ptr<const Compiled> compiled_;  // null: this is the literal literal_
  std::string literal_;
};

}  // namespace slip
