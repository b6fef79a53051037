// SPDX-License-Identifier: Apache-2.0
#include "bench/common/prompts.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace slip::bench {

std::vector<Prompt> read_prompts(const std::filesystem::path& file, double skip_share, std::size_t limit) {
  std::ifstream in(file);
  if (!in)
    throw Error(ErrorCode::kNotFound, "cannot open " + file.string(), "pass a JSONL file with `prompt` in each row");
  std::vector<Prompt> prompts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object() || !row.contains("prompt") || !row["prompt"].is_string()) {
      throw Error(ErrorCode::kInvalidArgument,
                  file.string() + " line " + std::to_string(number) + " has no string `prompt`");
    }
    prompts.push_back({row.value("id", std::to_string(number)), row.value("topic", std::string()), row["prompt"]});
  }
  const auto skipped = static_cast<std::ptrdiff_t>(skip_share * static_cast<double>(prompts.size()) + 0.999999);
  prompts.erase(prompts.begin(), prompts.begin() + std::min<std::ptrdiff_t>(skipped, std::ssize(prompts)));
  if (limit > 0 && prompts.size() > limit) prompts.resize(limit);
  return prompts;
}

}  // namespace slip::bench
