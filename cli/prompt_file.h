// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slip::cli {

struct PromptRow {
  nlohmann::json id;  // a string or an integer; by default the row's number, from 1
  std::string prompt;
};

// JSONL rows with `prompt` and optional `id`; other keys and blank lines are ignored.
// Error{kInvalidArgument | kNotFound | kTooLarge} naming file, line and key.
std::vector<PromptRow> read_prompt_file(const std::filesystem::path& path);

}  // namespace slip::cli
