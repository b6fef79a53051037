// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace slip::bench {

struct Prompt {
  std::string id, topic, text;
};

// Reads JSONL rows with `prompt` (and optional `id`, `topic`). `skip_share` skips that first share of the file. Throws
// Error naming file and line.
std::vector<Prompt> read_prompts(const std::filesystem::path& file, double skip_share = 0, std::size_t limit = 0);

}  // namespace slip::bench
