// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "text/byte_pair_encoder.h"
#include "text/sentence_piece.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_paths.h"
#include "text/tokenizer_tables.h"

namespace slip {

namespace {

constexpr std::uint64_t kMaxFileBytes = 64U << 20;
constexpr std::size_t kMaxTextBytes = 256U << 20;

}  // namespace

std::vector<std::int32_t> Tokenizer::Tables::encode(std::string_view text, std::span<const ByteRange> parsed) const {
  if (text.size() > kMaxTextBytes) throw Error(ErrorCode::kTooLarge, "the text is over 256 MiB");
  std::vector<std::int32_t> out;
  std::size_t done = 0;
  for (const AddedTokens::Match& match : added.find(text, parsed)) {
    if (match.where.begin > done) encoder->encode(text, {done, match.where.begin}, parsed, out);
    out.push_back(match.id);
    done = match.where.end;
  }
  if (done < text.size()) encoder->encode(text, {done, text.size()}, parsed, out);
  return out;
}

Tokenizer::Tokenizer(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {
  for (std::size_t i = 0; i < tables_->entries.size(); ++i) {
    tables_->ids.emplace(tables_->entries[i].content, static_cast<std::int32_t>(i));
  }
}
Tokenizer::~Tokenizer() = default;

void Tokenizer::read_json(const std::filesystem::path& path, Tables& tables) {
  TokenizerFile file = parse_tokenizer_file(read_file(path, kMaxFileBytes), path.string());
  tables.encoder = std::make_unique<BytePairEncoder>(file);
  for (const TokenizerFile::Added& token : file.added) {
    if (token.flags.normalized) continue;
    tables.added.add(file.entries[static_cast<std::size_t>(token.id)].content, token.id, token.flags);
  }
  tables.entries = std::move(file.entries);
  tables.decoder = std::move(file.decoder);
  tables.post_processor = std::move(file.post_processor);
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path file = vocabulary_file(folder);
  auto tables = std::make_unique<Tables>();
  if (file.extension() == ".model") {
    SentencePieceEncoder::load(file, *tables);
  } else {
    read_json(file, *tables);
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(tables)));
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

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  return with_special_tokens(encode(text, SpecialTokens::kParse));
}

std::vector<std::int32_t> Tokenizer::with_special_tokens(std::vector<std::int32_t> ids) const {
  const PostProcessor& around = tables_->post_processor;
  ids.insert(ids.begin(), around.before.begin(), around.before.end());
  ids.insert(ids.end(), around.after.begin(), around.after.end());
  return ids;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  const VocabularyEntry* entry = tables_->entry(id);
  return entry == nullptr ? std::string_view() : entry->bytes;
}

bool Tokenizer::is_special(std::int32_t id) const {
  const VocabularyEntry* entry = tables_->entry(id);
  return entry != nullptr && entry->kind == VocabularyEntry::Kind::kSpecial;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  // A non-owning pointer: the decoder does not outlive this call.
  StreamDecoder decoder(std::shared_ptr<const Tokenizer>(std::shared_ptr<void>(), this));
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(tables_->entries.size());
}

std::int32_t Tokenizer::token_id(std::string_view content) const {
  const auto found = tables_->ids.find(content);
  return found == tables_->ids.end() ? -1 : found->second;
}

std::string_view Tokenizer::token_content(std::int32_t id) const {
  const VocabularyEntry* entry = tables_->entry(id);
  return entry == nullptr ? std::string_view() : entry->content;
}

std::int32_t Tokenizer::first_difference(const Tokenizer& a, const Tokenizer& b) {
  const std::int32_t n = std::max(a.vocab_size(), b.vocab_size());
  for (std::int32_t id = 0; id < n; ++id) {
    const VocabularyEntry* left = a.tables_->entry(id);
    const VocabularyEntry* right = b.tables_->entry(id);
    if (left == nullptr || right == nullptr || left->content != right->content || left->kind != right->kind) return id;
  }
  return -1;
}

}  // namespace slip
