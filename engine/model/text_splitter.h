// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace slip {

// Cuts text into the pieces that byte-pair merges never cross: matches of a pattern, and what lies between them, each
// by itself. Immutable; split() from any thread.
class TextSplitter {
 public:
  // Error{kUnsupported} when PCRE2 cannot compile the pattern.
  explicit TextSplitter(const std::string& pattern);
  ~TextSplitter();
  TextSplitter(TextSplitter&&) noexcept;

  // Appends the pieces of `text` (any bytes; invalid UTF-8 runs become pieces of their own). Error{kInvalidArgument}
  // when the pattern needs more backtracking than is allowed on this text.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  void split_valid(std::string_view text, std::vector<std::string_view>& pieces) const;
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace slip
