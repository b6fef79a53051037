// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "engine/model/added_tokens.h"
#include "engine/model/byte_pair_merges.h"
#include "engine/model/text_splitter.h"
#include "engine/model/tokenizer_file.h"
#include "engine/model/utf8.h"

namespace slip {

namespace {

constexpr std::uint64_t kMaxFileBytes = 64U << 20;
constexpr std::size_t kMaxTextBytes = 256U << 20;

}  // namespace

struct Tokenizer::Tables {
  explicit Tables(TokenizerFile file)
      : entries(std::move(file.entries)),
        byte_ids(file.byte_ids),
        merges(std::move(file.merges)),
        splitter(file.pattern) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const TokenizerFile::Entry& entry = entries[i];
      ids.emplace(entry.content, static_cast<std::int32_t>(i));
      if (entry.kind == TokenizerFile::Kind::kVocabulary) continue;
      added.add(entry.content, static_cast<std::int32_t>(i), entry.kind == TokenizerFile::Kind::kSpecial);
    }
  }

  const TokenizerFile::Entry* entry(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries.size() ? &entries[static_cast<std::size_t>(id)] : nullptr;
  }

  // Appends the ids of text without added tokens.
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
    std::vector<std::string_view> pieces;
    splitter.split(text, pieces);
    BytePairMerges::Scratch scratch;
    std::vector<std::int32_t> symbols;
    for (const std::string_view piece : pieces) {
      symbols.clear();
      for (const char byte : piece) symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
      merges.merge(symbols, scratch, out);
    }
  }

  std::vector<std::int32_t> encode(std::string_view text, std::span<const ByteRange> parsed) const {
    if (text.size() > kMaxTextBytes) throw Error(ErrorCode::kTooLarge, "the text is over 256 MiB");
    std::vector<std::int32_t> out;
    std::size_t done = 0;
    for (const AddedTokens::Match& match : added.find(text, parsed)) {
      encode_plain(text.substr(done, match.where.begin - done), out);
      out.push_back(match.id);
      done = match.where.end;
    }
    encode_plain(text.substr(done), out);
    return out;
  }

  std::vector<TokenizerFile::Entry> entries;  // by id
  std::array<std::int32_t, 256> byte_ids;
  BytePairMerges merges;
  TextSplitter splitter;
  AddedTokens added;
  std::unordered_map<std::string_view, std::int32_t> ids;  // by content, which `entries` owns
};

Tokenizer::Tokenizer(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  TokenizerFile file = parse_tokenizer_file(read_file(path, kMaxFileBytes), path.string());
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::make_unique<Tables>(std::move(file))));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens specials) const {
  const ByteRange whole{0, text.size()};
  return tables_->encode(text, std::span(&whole, specials == SpecialTokens::kParse ? 1 : 0));
}

std::vector<std::int32_t> Tokenizer::encode(const std::vector<TextPiece>& pieces) const {
  std::string text;
  std::vector<ByteRange> parsed;
  for (const TextPiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (piece.specials != SpecialTokens::kParse) continue;
    if (!parsed.empty() && parsed.back().end == begin) {
      parsed.back().end = text.size();
    } else {
      parsed.push_back({begin, text.size()});
    }
  }
  return tables_->encode(text, parsed);
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  const TokenizerFile::Entry* entry = tables_->entry(id);
  return entry == nullptr ? std::string_view() : entry->bytes;
}

bool Tokenizer::is_special(std::int32_t id) const {
  const TokenizerFile::Entry* entry = tables_->entry(id);
  return entry != nullptr && entry->kind == TokenizerFile::Kind::kSpecial;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string bytes, text;
  for (const std::int32_t id : ids) bytes += token_bytes(id);
  take_whole_characters(bytes, text);
  if (!bytes.empty()) text += kReplacementCharacter;
  return text;
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(tables_->entries.size());
}

std::int32_t Tokenizer::token_id(std::string_view content) const {
  const auto found = tables_->ids.find(content);
  return found == tables_->ids.end() ? -1 : found->second;
}

std::string_view Tokenizer::token_content(std::int32_t id) const {
  const TokenizerFile::Entry* entry = tables_->entry(id);
  return entry == nullptr ? std::string_view() : entry->content;
}

std::int32_t Tokenizer::first_difference(const Tokenizer& a, const Tokenizer& b) {
  const std::int32_t n = std::max(a.vocab_size(), b.vocab_size());
  for (std::int32_t id = 0; id < n; ++id) {
    const TokenizerFile::Entry* left = a.tables_->entry(id);
    const TokenizerFile::Entry* right = b.tables_->entry(id);
    if (left == nullptr || right == nullptr || left->content != right->content || left->kind != right->kind) return id;
  }
  return -1;
}

}  // namespace slip
