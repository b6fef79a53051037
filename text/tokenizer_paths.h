// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>

namespace slip {

// All files of a checkpoint's folder that define its tokens and their use. Another program needs them beside the
// weights. A draft uses its target's.
inline constexpr std::array kTokenizerFiles = {
    "tokenizer.json",          "tokenizer_config.json",  "tokenizer.model",    "added_tokens.json",
    "special_tokens_map.json", "generation_config.json", "chat_template.jinja"};

// The file that holds the vocabulary: tokenizer.json, or tokenizer.model if the folder has only that.
inline std::filesystem::path vocabulary_file(const std::filesystem::path& folder) {
  const std::filesystem::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  return !std::filesystem::exists(json) && std::filesystem::exists(model) ? model : json;
}

}  // namespace slip
