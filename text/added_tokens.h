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
  bool single_word = false;  // matches only without a word character on either side
  bool lstrip = false;       // strips the white space before it
  bool rstrip = false;       // strips the white space after it
  bool normalized = false;   // matched against the normalized text
};

// The added tokens, searched for in text: leftmost first, then longest. A trie keeps the search linear, even in text
// that repeats the start of a long spelling.
class AddedTokens {
 public:
  AddedTokens() : nodes_(1) {}
  void add(std::string_view content, std::int32_t id, AddedTokenFlags flags);  // REQUIRES: content is not empty
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    ByteRange where;  // including the stripped white space
    std::int32_t id = 0;
  };
  // Special tokens match only inside one of the `parsed` ranges (ascending, disjoint); other added tokens match
  // anywhere.
  std::vector<Match> find(std::string_view text, std::span<const ByteRange> parsed) const;

 private:
  struct Node {
    std::int32_t id = -1;  // of the token that ends at this node; −1: none
    AddedTokenFlags flags;
  };
  static std::uint64_t edge(std::size_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }
  const Node* longest_at(std::string_view text, std::size_t at, std::size_t parsed_end, std::size_t& end) const;

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> edges_;
  std::array<bool, 256> first_byte_{};
};

}  // namespace slip
