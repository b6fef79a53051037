// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pair_model.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_tables.h"

namespace slip {

// tokenizer.json's way: normalize, look for the added tokens that are normalized themselves, pre-tokenize, merge.
class BytePairEncoder final : public TextEncoder {
 public:
  // Leaves entries, decoder and post-processor in `file`.
  explicit BytePairEncoder(TokenizerFile& file);
  void encode(std::string_view text, ByteRange section, std::span<const ByteRange> parsed,
              std::vector<std::int32_t>& out) const override;

 private:
  void encode_normalized(std::string_view text, bool starts_text, std::span<const ByteRange> parsed,
                         std::vector<std::int32_t>& out) const;
  void encode_plain(std::string_view text, bool starts_text, std::vector<std::int32_t>& out) const;

  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  BytePairModel model_;
};

}  // namespace slip
