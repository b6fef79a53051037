// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace slip {

struct ByteRange {
  std::size_t begin = 0, end = 0;
};

struct AddedTokenFlags {
  bool special = false;
  bool single_word = false;  // only where no word character stands before or after it
  bool lstrip = false;       // takes the white space before it as well
  bool rstrip = false;       // takes the white space after it as well
  bool normalized = false;   // looked for in the normalized text
};

// Finds the spellings of added tokens in text, leftmost first, then longest. A trie, so that a text made of beginnings
// of "<|reserved_…" costs no more than any other.
class AddedTokens {
 public:
  AddedTokens() : nodes_(1) {}
  void add(std::string_view content, std::int32_t id, AddedTokenFlags flags);  // REQUIRES: content is not empty
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    ByteRange where;  // stripped white space included
    std::int32_t id = 0;
  };
  // Special tokens count only where they lie wholly inside one of `parsed` (ascending, disjoint); others anywhere.
  std::vector<Match> find(std::string_view text, std::span<const ByteRange> parsed) const;

 private:
  struct Node {
    std::int32_t id = -1;  // of the token that ends here
    AddedTokenFlags flags;
  };
  static std::uint64_t edge(std::size_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }
  const Node* longest_at(std::string_view text, std::size_t at, std::size_t parsed_end, std::size_t& end) const;

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> edges_;
  std::array<bool, 256> first_byte_{};
};

}  // namespace slip
