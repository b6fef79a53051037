// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece.h"

#include <sentencepiece_processor.h>

#include "common/error.h"
#include "common/file.h"
#include "text/sentence_piece_file.h"
#include "text/tokenizer_settings.h"

namespace slip {

namespace {

using sentencepiece::SentencePieceProcessor;
using Kind = VocabularyEntry::Kind;

constexpr std::uint64_t kMaxFileBytes = 16U << 20;  // the largest public files have 4 MiB
constexpr std::string_view kSpaceMark = "\u2581";

VocabularyEntry entry_of(const SentencePieceProcessor& processor, int id, const TokenDecoder& decoder) {
  VocabularyEntry entry{processor.IdToPiece(id), {}, Kind::kVocabulary, /*in_model=*/true};
  if (processor.IsControl(id)) {
    entry.kind = Kind::kSpecial;
  } else if (processor.IsUnknown(id)) {
    entry.kind = Kind::kUnknown;
    entry.bytes = processor.DecodeIds({id});
  } else {
    entry.bytes = decoder.token_bytes(entry.content, /*is_first=*/false);
  }
  return entry;
}

// The normalizer's options decide about leading spaces. The library does not expose them, so this decodes a probe word.
TokenDecoder decoder_of(const SentencePieceProcessor& processor) {
  const int space = processor.PieceToId(kSpaceMark);
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const std::string& piece = processor.IdToPiece(id);
    // Skips pieces unless the mark occurs once, at the start
    if (piece.size() == kSpaceMark.size() || piece.rfind(kSpaceMark) != 0) continue;
    const bool drops = !processor.DecodeIds({id}).starts_with(' ');
    const bool drops_twice = drops && !processor.IsUnknown(space) && !processor.DecodeIds({space, id}).starts_with(' ');
    return TokenDecoder::sentence_piece(drops, drops_twice);
  }
  return TokenDecoder::sentence_piece(/*drop_leading_space=*/false, /*until_text=*/false);
}

std::unique_ptr<SentencePieceProcessor> read_processor(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMaxFileBytes);
  check_sentence_piece_file(bytes, path.string());
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw Error(ErrorCode::kInvalidArgument, path.string() + ": SentencePiece cannot read it: " + status.ToString());
  }
  return processor;
}

// Adds the tokens that the folder's settings define beyond the file's pieces, and marks those they call special.
void add_tokens(const std::vector<TokenizerSettings::Added>& added, std::vector<VocabularyEntry>& entries) {
  for (const TokenizerSettings::Added& token : added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id > entries.size()) throw Error(ErrorCode::kInvalidArgument, token.where + ": the id before it has no token");
    if (id == entries.size()) entries.push_back({token.content, token.content, Kind::kAdded, /*in_model=*/false, {}});
    VocabularyEntry& entry = entries[id];
    if (entry.content != token.content) {
      throw Error(ErrorCode::kInvalidArgument, token.where + ": tokenizer.model has another token of this id");
    }
    if (!token.flags.special) continue;
    entry.kind = Kind::kSpecial;
    entry.bytes.clear();
  }
}

// The id of the token named by the settings, else the model's own; empty if there is neither.
std::vector<std::int32_t> named_id(const TokenizerSettings& settings, const char* key, int own,
                                   const std::vector<VocabularyEntry>& entries) {
  const auto name = settings.special_tokens.find(key);
  for (std::size_t id = 0; name != settings.special_tokens.end() && id < entries.size(); ++id) {
    if (entries[id].content == name->second) return {static_cast<std::int32_t>(id)};
  }
  if (own < 0) return {};
  return {own};
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(std::unique_ptr<SentencePieceProcessor> processor)
    : processor_(std::move(processor)) {}
SentencePieceEncoder::~SentencePieceEncoder() = default;

void SentencePieceEncoder::load(const std::filesystem::path& path, Tokenizer::Tables& tables) {
  const TokenizerSettings settings = TokenizerSettings::read(path.parent_path());
  auto processor = read_processor(path);
  tables.decoder = decoder_of(*processor);
  for (int id = 0; id < processor->GetPieceSize(); ++id) {
    tables.entries.push_back(entry_of(*processor, id, tables.decoder));
    if (tables.entries.back().kind == Kind::kSpecial) {
      tables.added.add(tables.entries.back().content, id, {.special = true});
    }
  }
  add_tokens(settings.added, tables.entries);
  for (const TokenizerSettings::Added& token : settings.added) {
    AddedTokenFlags flags = token.flags;  // a control symbol stays special even if the settings disagree
    flags.special = tables.entries[static_cast<std::size_t>(token.id)].kind == Kind::kSpecial;
    tables.added.add(token.content, token.id, flags);
  }
  if (settings.add_bos) {
    tables.post_processor.before = named_id(settings, "bos_token", processor->bos_id(), tables.entries);
  }
  if (settings.add_eos) {
    tables.post_processor.after = named_id(settings, "eos_token", processor->eos_id(), tables.entries);
  }
  tables.encoder.reset(new SentencePieceEncoder(std::move(processor)));
}

void SentencePieceEncoder::encode(std::string_view text, ByteRange section, std::span<const ByteRange> /*parsed*/,
                                  std::vector<std::int32_t>& out) const {
  std::vector<int> ids;
  const auto status = processor_->Encode(text.substr(section.begin, section.end - section.begin), &ids);
  if (!status.ok()) throw Error(ErrorCode::kInternal, "SentencePiece cannot encode: " + status.ToString());
  out.insert(out.end(), ids.begin(), ids.end());
}

}  // namespace slip
