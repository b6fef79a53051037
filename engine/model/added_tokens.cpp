// SPDX-License-Identifier: Apache-2.0
#include "engine/model/added_tokens.h"

namespace slip {

void AddedTokens::add(std::string_view content, std::int32_t id, bool special) {
  std::size_t node = 0;
  for (const char byte : content) {
    const auto [found, fresh] = edges_.try_emplace(edge(node, byte), nodes_.size());
    if (fresh) nodes_.emplace_back();
    node = found->second;
  }
  nodes_[node] = {id, special};
  first_byte_[static_cast<unsigned char>(content.front())] = true;
}

bool AddedTokens::longest_at(std::string_view text, std::size_t at, std::size_t parsed_end, Match& match) const {
  bool found = false;
  std::size_t node = 0;
  for (std::size_t end = at; end < text.size();) {
    const auto next = edges_.find(edge(node, text[end]));
    if (next == edges_.end()) break;
    node = next->second;
    ++end;
    const Node& reached = nodes_[node];
    if (reached.id < 0 || (reached.special && end > parsed_end)) continue;
    match = {{at, end}, reached.id};
    found = true;
  }
  return found;
}

std::vector<AddedTokens::Match> AddedTokens::find(std::string_view text, std::span<const ByteRange> parsed) const {
  std::vector<Match> matches;
  Match match;
  std::size_t at = 0;
  while (at < text.size()) {
    while (!parsed.empty() && parsed.front().end <= at) parsed = parsed.subspan(1);
    const bool is_parsed = !parsed.empty() && parsed.front().begin <= at;
    const std::size_t parsed_end = is_parsed ? parsed.front().end : 0;
    if (first_byte_[static_cast<unsigned char>(text[at])] && longest_at(text, at, parsed_end, match)) {
      matches.push_back(match);
      at = match.where.end;
    } else {
      ++at;
    }
  }
  return matches;
}

}  // namespace slip
