// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"

namespace slip {

// What tokenizer_config.json adds to the tokenizer's own file. Where a tokenizer.json says the same (added tokens, what
// stands around a text), that file counts and this one does not, as in transformers.
//
// Folders written before tokenizer_config.json had an `added_tokens_decoder` say in two more files what it says now:
// special_tokens_map.json names special tokens, and added_tokens.json has ids for added ones. Both are read where, and
// only where, that key is absent; then a name in the map wins over one in tokenizer_config.json. This too is what
// transformers does.
struct TokenizerSettings {
  struct Added {
    std::int32_t id = 0;
    std::string content;
    AddedTokenFlags flags;
    std::string where;  // file and key, for messages
  };
  std::map<std::string, std::string> special_tokens;  // "bos_token" → "<s>"; those that are set
  bool add_bos = true, add_eos = false;               // what Llama's and Gemma's classes do unless told otherwise
  std::vector<Added> added;                           // ascending, distinct ids

  // A folder without the files has the defaults. Error{kInvalidArgument | kTooLarge} naming file and key.
  static TokenizerSettings read(const std::filesystem::path& folder);
};

// The folder's tokenizer_config.json, {} when it has none. Error{kInvalidArgument | kTooLarge} naming the file.
nlohmann::json read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace slip
