// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>

namespace slip {

// Every file in which a checkpoint's folder may say what its tokens are and how they are used: what weights need beside
// them before another program can load them. A draft has its target's.
inline constexpr std::array kTokenizerFiles = {
    "tokenizer.json",          "tokenizer_config.json",  "tokenizer.model",    "added_tokens.json",
    "special_tokens_map.json", "generation_config.json", "chat_template.jinja"};

// The one that holds the vocabulary: tokenizer.json, or tokenizer.model in a folder that has only that.
inline std::filesystem::path vocabulary_file(const std::filesystem::path& folder) {
  const std::filesystem::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  return !std::filesystem::exists(json) && std::filesystem::exists(model) ? model : json;
}

}  // namespace slip
