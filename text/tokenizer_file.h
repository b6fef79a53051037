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

// What a tokenizer.json says, checked: ids are 0 … n − 1 without holes, every merge joins entries to an entry, and
// every byte has a token or there is one for the unknown.
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

// Throws Error{kUnsupported} naming the key for a component that is not implemented, and
// Error{kInvalidArgument | kTooLarge} for files that contradict themselves. `where` names the file in messages.
TokenizerFile parse_tokenizer_file(std::string_view json, const std::string& where);

}  // namespace slip
