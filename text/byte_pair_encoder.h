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

// The encoder of a tokenizer.json: normalize, find the normalized added tokens, pre-tokenize, merge.
class BytePairEncoder final : public TextEncoder {
 public:
  // Moves its parts out of `file`; entries, decoder and post-processor remain there.
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
