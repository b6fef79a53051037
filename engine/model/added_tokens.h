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

// Finds the spellings of added tokens in text, leftmost first, then longest. A trie, so that a text made of beginnings
// of "<|reserved_…" costs no more than any other.
class AddedTokens {
 public:
  AddedTokens() : nodes_(1) {}
  void add(std::string_view content, std::int32_t id, bool special);

  struct Match {
    ByteRange where;
    std::int32_t id = 0;
  };
  // Special tokens count only where they lie wholly inside one of `parsed` (ascending, disjoint); others anywhere.
  std::vector<Match> find(std::string_view text, std::span<const ByteRange> parsed) const;

 private:
  struct Node {
    std::int32_t id = -1;  // of the token that ends here
    bool special = false;
  };
  static std::uint64_t edge(std::size_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }
  bool longest_at(std::string_view text, std::size_t at, std::size_t parsed_end, Match& match) const;

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> edges_;
  std::array<bool, 256> first_byte_{};
};

}  // namespace slip
