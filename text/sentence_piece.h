// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer_tables.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace slip {

// The encoder of a SentencePiece tokenizer.model, a wrapper of Google's library.
class SentencePieceEncoder final : public TextEncoder {
 public:
  // Fills all of `tables`, including its encoder, and adds the folder's settings. Error{kInvalidArgument | kTooLarge |
  // kNotFound} naming the file.
  static void load(const std::filesystem::path& path, Tokenizer::Tables& tables);
  ~SentencePieceEncoder() override;

  void encode(std::string_view text, ByteRange section, std::span<const ByteRange> parsed,
              std::vector<std::int32_t>& out) const override;

 private:
  explicit SentencePieceEncoder(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor);
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace slip
