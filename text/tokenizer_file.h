// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pair_merges.h"
#include "text/byte_pair_model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/vocabulary_entry.h"

namespace slip {

// The checked content of a tokenizer.json. Ids are 0 … n − 1 without holes, every merge joins two entries to a third,
// and every byte has a token unless there is an unknown token.
struct TokenizerFile {
  struct Added {
    std::int32_t id = 0;
    AddedTokenFlags flags;
  };
  std::vector<VocabularyEntry> entries;  // by id
  std::vector<Added> added;
  std::vector<Merge> merges;  // by rank
  BytePairOptions options;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
  PostProcessor post_processor;
};

// Throws Error{kUnsupported} naming the key of a component that is not implemented, and Error{kInvalidArgument |
// kTooLarge} for an inconsistent file. `where` names the file in messages.
TokenizerFile parse_tokenizer_file(std::string_view json, const std::string& where);

}  // namespace slip
