// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair_model.h"

#include <algorithm>
#include <utility>

#include "text/byte_spelling.h"
#include "text/code_points.h"

namespace slip {

namespace {

bool can_be_text(const VocabularyEntry& entry) {
  return entry.in_model && entry.kind != VocabularyEntry::Kind::kSpecial;
}

std::vector<Merge> without_specials(std::vector<Merge> merges, const std::vector<VocabularyEntry>& entries) {
  std::erase_if(merges, [&](const Merge& merge) {
    return entries[static_cast<std::size_t>(merge.result)].kind == VocabularyEntry::Kind::kSpecial;
  });
  return merges;
}

}  // namespace

BytePairModel::BytePairModel(const std::vector<VocabularyEntry>& entries, std::vector<Merge> merges,
                             BytePairOptions options)
    : merges_(without_specials(std::move(merges), entries)), options_(options) {
  low_characters_.fill(-1);
  bytes_.fill(-1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!can_be_text(entries[i])) continue;
    const auto id = static_cast<std::int32_t>(i);
    const std::string& content = entries[i].content;
    const CodePoint c = first_code_point(content);
    if (c.bytes == content.size() && c.value >= 0) {
      if (static_cast<std::size_t>(c.value) < kTableSize) {
        low_characters_[static_cast<std::size_t>(c.value)] = id;
      } else {
        high_characters_.emplace(c.value, id);
      }
    }
    if (const int byte = spelled_byte(content);
        byte >= 0 && content == fallback_spelling(static_cast<unsigned char>(byte))) {
      bytes_[static_cast<std::size_t>(byte)] = id;
    }
    if (options_.ignore_merges) pieces_.emplace(content, id);
  }
}

std::int32_t BytePairModel::character_id(std::int32_t code_point) const {
  if (code_point < 0) return -1;
  if (static_cast<std::size_t>(code_point) < kTableSize) return low_characters_[static_cast<std::size_t>(code_point)];
  const auto found = high_characters_.find(code_point);
  return found == high_characters_.end() ? -1 : found->second;
}

bool BytePairModel::append_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const {
  const auto id = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id(byte) < 0; })) return false;
  for (const char byte : character) symbols.push_back(id(byte));
  return true;
}

void BytePairModel::encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (options_.ignore_merges) {
    if (const auto whole = pieces_.find(std::string(piece)); whole != pieces_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  scratch.symbols.clear();
  bool after_unknown = false;
  while (!piece.empty()) {
    const CodePoint c = first_code_point(piece);
    const std::string_view character = piece.substr(0, c.bytes);
    piece.remove_prefix(c.bytes);
    const std::int32_t id = character_id(c.value);
    if (id >= 0) {
      scratch.symbols.push_back(id);
      after_unknown = false;
    } else if (options_.byte_fallback && append_bytes(character, scratch.symbols)) {
      after_unknown = false;
    } else if (options_.unknown >= 0 && !(after_unknown && options_.fuse_unknown)) {
      scratch.symbols.push_back(options_.unknown);
      after_unknown = true;
    }
  }
  merges_.merge(scratch.symbols, scratch.merges, out);
}

}  // namespace slip
