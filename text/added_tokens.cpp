// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include "text/code_points.h"

namespace slip {

namespace {

bool stands_alone(std::string_view text, ByteRange where) {
  const std::string_view before = text.substr(0, where.begin), after = text.substr(where.end);
  return (before.empty() || !is_word(last_code_point(before).value)) &&
         (after.empty() || !is_word(first_code_point(after).value));
}

// Extends `where` over the adjacent white space that the flags strip. The result does not begin before `done`.
ByteRange widened(std::string_view text, ByteRange where, AddedTokenFlags flags, std::size_t done) {
  while (flags.lstrip && where.begin > done) {
    const CodePoint c = last_code_point(text.substr(0, where.begin));
    if (!is_white_space(c.value)) break;
    where.begin -= c.bytes;
  }
  where.begin = std::max(where.begin, std::min(done, where.end));
  while (flags.rstrip && where.end < text.size()) {
    const CodePoint c = first_code_point(text.substr(where.end));
    if (!is_white_space(c.value)) break;
    where.end += c.bytes;
  }
  return where;
}

}  // namespace

void AddedTokens::add(std::string_view content, std::int32_t id, AddedTokenFlags flags) {
  std::size_t node = 0;
  for (const char byte : content) {
    const auto [found, fresh] = edges_.try_emplace(edge(node, byte), nodes_.size());
    if (fresh) nodes_.emplace_back();
    node = found->second;
  }
  nodes_[node] = {id, flags};
  first_byte_[static_cast<unsigned char>(content.front())] = true;
}

const AddedTokens::Node* AddedTokens::longest_at(std::string_view text, std::size_t at, std::size_t parsed_end,
                                                 std::size_t& end) const {
  const Node* longest = nullptr;
  std::size_t node = 0;
  for (std::size_t reach = at; reach < text.size();) {
    const auto next = edges_.find(edge(node, text[reach]));
    if (next == edges_.end()) break;
    node = next->second;
    ++reach;
    const Node& reached = nodes_[node];
    if (reached.id < 0 || (reached.flags.special && reach > parsed_end)) continue;
    longest = &reached;
    end = reach;
  }
  return longest;
}

std::vector<AddedTokens::Match> AddedTokens::find(std::string_view text, std::span<const ByteRange> parsed) const {
  std::vector<Match> matches;
  std::size_t at = 0, done = 0;
  while (at < text.size()) {
    while (!parsed.empty() && parsed.front().end <= at) parsed = parsed.subspan(1);
    const bool is_parsed = !parsed.empty() && parsed.front().begin <= at;
    const std::size_t parsed_end = is_parsed ? parsed.front().end : 0;
    std::size_t end = at + 1;
    const Node* found =
        first_byte_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, parsed_end, end) : nullptr;
    // An occurrence that violates `single_word` is skipped as a whole, as Hugging Face's tokenizers does.
    if (found != nullptr && (!found->flags.single_word || stands_alone(text, {at, end}))) {
      matches.push_back({widened(text, {at, end}, found->flags, done), found->id});
      done = matches.back().where.end;
    }
    at = end;
  }
  return matches;
}

}  // namespace slip
