// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace slip {

class Tokenizer;

// The texts of a vocabulary as a byte trie, laid out in depth-first order: the nodes below node i end at node(i).end.
// Tokens with a common prefix share the work of a walk. Immutable; any thread.
class TokenTrie {
 public:
  struct Node {
    std::uint32_t end = 0;       // one past the last node below this one
    std::uint32_t first_id = 0;  // in ids()
    std::uint16_t depth = 0;     // bytes from the root, this one included
    std::uint8_t byte = 0;
  };
  static constexpr std::size_t kLongestToken = 1024;  // bytes; longer tokens are left out, so never allowed

  // texts[id] is the text of token id; empty ones are left out.
  explicit TokenTrie(const std::vector<std::string_view>& texts);

  std::uint32_t n_nodes() const { return static_cast<std::uint32_t>(nodes_.size()) - 1; }
  const Node& node(std::uint32_t index) const { return nodes_[index]; }
  // The tokens whose text ends at a node.
  std::span<const std::int32_t> ids_at(std::uint32_t index) const {
    return std::span(ids_).subspan(nodes_[index].first_id, nodes_[index + 1].first_id - nodes_[index].first_id);
  }
  std::string_view text(std::int32_t id) const;  // empty outside the vocabulary; the tokenizer outlives the trie
  std::size_t n_tokens() const { return texts_.size(); }

 private:
  std::vector<std::string_view> texts_;
  std::vector<Node> nodes_;        // and a sentinel after the last
  std::vector<std::int32_t> ids_;  // in the order of their texts
};

// The text that each token adds; empty for special tokens, which are not text.
std::vector<std::string_view> token_texts(const Tokenizer& tokenizer);

}  // namespace slip
