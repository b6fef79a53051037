// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/token_trie.h"

#include <algorithm>

namespace slip {

TokenTrie::TokenTrie(const std::vector<std::string_view>& texts) : texts_(texts) {
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id].empty() && texts[id].size() <= kLongestToken) ids_.push_back(static_cast<std::int32_t>(id));
  }
  const auto text_of = [&](std::int32_t id) { return texts[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids_.begin(), ids_.end(), [&](std::int32_t a, std::int32_t b) { return text_of(a) < text_of(b); });
  std::vector<std::uint32_t> open;  // nodes from the root to the end of the previous text
  std::string_view before;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const std::string_view text = text_of(ids_[i]);
    const auto differs = std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first;
    close_to(static_cast<std::size_t>(differs - text.begin()));
    while (open.size() < text.size()) {
      const auto byte = static_cast<std::uint8_t>(text[open.size()]);
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(open.size()), byte});
    }
    before = text;
  }
  close_to(0);
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), static_cast<std::uint32_t>(ids_.size()), 0, 0});
}

std::string_view TokenTrie::text(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < texts_.size() ? texts_[static_cast<std::size_t>(id)]
                                                                 : std::string_view();
}

}  // namespace slip
