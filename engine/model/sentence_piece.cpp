// SPDX-License-Identifier: Apache-2.0
#include "engine/model/sentence_piece.h"

#include <sentencepiece_processor.h>

#include "common/error.h"
#include "common/file.h"

namespace slip {

namespace {

using sentencepiece::SentencePieceProcessor;
using Kind = VocabularyEntry::Kind;

constexpr std::uint64_t kMaxFileBytes = 16U << 20;  // the largest public ones have 4 MiB
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

// What happens to spaces at the text's beginning depends on the normalizer's options, which the library does not tell;
// a word's decoding does.
TokenDecoder decoder_of(const SentencePieceProcessor& processor) {
  const int space = processor.PieceToId(kSpaceMark);
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const std::string& piece = processor.IdToPiece(id);
    if (piece.size() == kSpaceMark.size() || piece.rfind(kSpaceMark) != 0) continue;  // the mark once, at the start
    const bool drops = !processor.DecodeIds({id}).starts_with(' ');
    const bool drops_twice = drops && !processor.IsUnknown(space) && !processor.DecodeIds({space, id}).starts_with(' ');
    return TokenDecoder::sentence_piece(drops, drops_twice);
  }
  return TokenDecoder::sentence_piece(/*drop_leading_space=*/false, /*until_text=*/false);
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(std::unique_ptr<SentencePieceProcessor> processor)
    : processor_(std::move(processor)) {}
SentencePieceEncoder::~SentencePieceEncoder() = default;

void SentencePieceEncoder::load(const std::filesystem::path& path, Tokenizer::Tables& tables) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(read_file(path, kMaxFileBytes));
  if (!status.ok()) {
    throw Error(ErrorCode::kInvalidArgument, path.string() + ": SentencePiece cannot read it: " + status.ToString());
  }
  tables.decoder = decoder_of(*processor);
  for (int id = 0; id < processor->GetPieceSize(); ++id) {
    const VocabularyEntry& entry = tables.entries.emplace_back(entry_of(*processor, id, tables.decoder));
    if (entry.kind == Kind::kSpecial && !entry.content.empty()) {
      tables.added.add(entry.content, id, {.special = true});
    }
  }
  // The file does not say so, but the models that come with one (Llama, Gemma) were trained with it.
  if (processor->bos_id() >= 0) tables.post_processor.before = {processor->bos_id()};
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
