// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/added_tokens.h"

namespace slip {

// What tokenizer_config.json adds to the tokenizer's own file. Where a tokenizer.json says the same (added tokens, what
// stands around a text), that file counts and this one does not, as in transformers.
struct TokenizerSettings {
  struct Added {
    std::int32_t id = 0;
    std::string content;
    AddedTokenFlags flags;
  };
  std::map<std::string, std::string> special_tokens;  // "bos_token" → "<s>"; those that are set
  bool add_bos = true, add_eos = false;               // what Llama's and Gemma's classes do unless told otherwise
  std::vector<Added> added;                           // ascending, distinct ids

  // A folder without the file has the defaults. Error{kInvalidArgument | kTooLarge} naming file and key.
  static TokenizerSettings read(const std::filesystem::path& folder);
  static TokenizerSettings read(const nlohmann::json& config, const std::string& where);
};

// The folder's tokenizer_config.json, {} when it has none. Error{kInvalidArgument | kTooLarge} naming the file.
nlohmann::json read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace slip
