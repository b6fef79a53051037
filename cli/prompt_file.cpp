// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt_file.h"

#include <string_view>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"

namespace slip::cli {

namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

PromptRow parse_row(std::string_view line, const std::string& where, std::int64_t row_number) {
  const auto object = parse_strict_json(line, where);
  const JsonFields fields(object, where);
  const auto prompt = fields.optional_string("prompt");
  if (!prompt) fields.refuse("prompt", "is missing");
  if (prompt->empty()) fields.refuse("prompt", "is empty");
  PromptRow row{row_number, *prompt};
  if (const auto* id = fields.find("id")) {
    if (!id->is_string() && !id->is_number_integer()) fields.refuse("id", "must be a string or an integer");
    row.id = *id;
  }
  return row;
}

}  // namespace

std::vector<PromptRow> read_prompt_file(const std::filesystem::path& path) {
  const std::string content = read_file(path, kMaxFileBytes);
  std::vector<PromptRow> rows;
  std::string_view rest = content;
  for (std::int64_t line_number = 1; !rest.empty(); ++line_number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto row_number = static_cast<std::int64_t>(rows.size()) + 1;
    rows.push_back(parse_row(line, path.string() + ":" + std::to_string(line_number), row_number));
  }
  if (rows.empty()) throw Error(ErrorCode::kInvalidArgument, path.string() + " holds no prompts", {}, "prompts");
  return rows;
}

}  // namespace slip::cli
