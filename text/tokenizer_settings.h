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

// The settings of a tokenizer_config.json. Where tokenizer.json states the same (added tokens, post-processor),
// tokenizer.json wins, as in transformers.
//
// Older folders lack `added_tokens_decoder` and use two more files: special_tokens_map.json names special tokens,
// added_tokens.json gives ids of added ones. Both are read only if that key is absent. A name in the map then wins over
// one in tokenizer_config.json, again as in transformers.
struct TokenizerSettings {
  struct Added {
    std::int32_t id = 0;
    std::string content;
    AddedTokenFlags flags;
    std::string where;  // file and key, for messages
  };
  std::map<std::string, std::string> special_tokens;  // "bos_token" → "<s>"; those that are set
  bool add_bos = true, add_eos = false;               // defaults of transformers' Llama and Gemma classes
  std::vector<Added> added;                           // distinct ids, ascending

  // Returns defaults for a folder without the files. Error{kInvalidArgument | kTooLarge} naming file and key.
  static TokenizerSettings read(const std::filesystem::path& folder);
};

// The folder's tokenizer_config.json, {} if absent. Error{kInvalidArgument | kTooLarge} naming the file.
nlohmann::json read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace slip
