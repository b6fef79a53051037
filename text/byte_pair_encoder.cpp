// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace slip {

namespace {

// The parts of `ranges` inside `section`, relative to its beginning.
std::vector<ByteRange> inside(ByteRange section, std::span<const ByteRange> ranges) {
  std::vector<ByteRange> out;
  for (const ByteRange& range : ranges) {
    const ByteRange common{std::max(range.begin, section.begin), std::min(range.end, section.end)};
    if (common.begin < common.end) out.push_back({common.begin - section.begin, common.end - section.begin});
  }
  return out;
}

}  // namespace

BytePairEncoder::BytePairEncoder(TokenizerFile& file)
    : normalizer_(std::move(file.normalizer)),
      pre_tokenizer_(std::move(file.pre_tokenizer)),
      model_(file.entries, std::move(file.merges), file.options) {
  for (const TokenizerFile::Added& token : file.added) {
    if (!token.flags.normalized) continue;
    const VocabularyEntry& entry = file.entries[static_cast<std::size_t>(token.id)];
    if (!entry.normalized.empty()) added_.add(entry.normalized, token.id, token.flags);
  }
}

void BytePairEncoder::encode(std::string_view text, ByteRange section, std::span<const ByteRange> parsed,
                             std::vector<std::int32_t>& out) const {
  const std::string_view raw = text.substr(section.begin, section.end - section.begin);
  const bool starts_text = section.begin == 0;
  std::vector<ByteRange> ranges = inside(section, parsed);
  if (normalizer_.is_identity()) return encode_normalized(raw, starts_text, ranges, out);
  // Normalization shifts positions, so ranges of the raw text cannot be mapped. A text parsed only in part is not
  // parsed at all (docs/security.md, S7).
  const bool all = ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end == raw.size();
  const std::string normalized = normalizer_.apply(raw);
  const ByteRange whole{0, normalized.size()};
  encode_normalized(normalized, starts_text, std::span(&whole, all ? 1 : 0), out);
}

void BytePairEncoder::encode_normalized(std::string_view text, bool starts_text, std::span<const ByteRange> parsed,
                                        std::vector<std::int32_t>& out) const {
  if (added_.empty()) return encode_plain(text, starts_text, out);
  std::size_t done = 0;
  for (const AddedTokens::Match& match : added_.find(text, parsed)) {
    if (match.where.begin > done) {
      encode_plain(text.substr(done, match.where.begin - done), starts_text && done == 0, out);
    }
    out.push_back(match.id);
    done = match.where.end;
  }
  encode_plain(text.substr(done), starts_text && done == 0, out);
}

void BytePairEncoder::encode_plain(std::string_view text, bool starts_text, std::vector<std::int32_t>& out) const {
  if (text.empty()) return;
  const TextPieces pieces = pre_tokenizer_.apply(text, starts_text);
  BytePairModel::Scratch scratch;
  for (std::size_t i = 0; i < pieces.size(); ++i) model_.encode(pieces[i], scratch, out);
}

}  // namespace slip
