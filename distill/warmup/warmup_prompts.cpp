// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_prompts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoints/model_config.h"
#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/replay/record_codec.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kHeldoutOf = 10;

PromptRowText parse_row(std::string_view line, const std::string& where, bool needs_response) {
  const nlohmann::json row = parse_strict_json(line, where);
  const JsonFields fields(row, where);
  const auto prompt = fields.optional_string("prompt");
  if (!prompt) fields.refuse("prompt", "is missing");
  const auto response = needs_response ? fields.optional_string("response") : std::nullopt;
  if (needs_response && !response) fields.refuse("response", "is missing; without --answers data none is needed");
  return {*prompt, response.value_or("")};
}

}  // namespace

std::vector<PromptRowText> parse_prompt_rows(std::string_view jsonl, const std::string& where, bool needs_response) {
  std::vector<PromptRowText> rows;
  std::size_t number = 0;
  while (!jsonl.empty()) {
    const std::size_t end = std::min(jsonl.find('\n'), jsonl.size());
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rows.push_back(parse_row(line, where + ":" + std::to_string(number), needs_response));
  }
  return rows;
}

std::vector<WarmupPrompt> read_warmup_prompts(const WarmupOptions& options, PromptsLeftOut& left_out) {
  const auto tokenizer = Tokenizer::load(options.target);
  const ChatTemplate chat = ChatTemplate::load(options.target, options.chat_template);
  const ModelConfig config = load_model_config(options.target);
  const bool forced = options.answers_from == AnswersFrom::kData;
  if (forced && config.eos_ids.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the target names no end token, which given responses need");
  }
  const auto context = static_cast<std::size_t>(config.max_positions);
  std::vector<WarmupPrompt> prompts;
  left_out = {};
  for (const auto& path : options.data) {
    std::vector<PromptRowText> rows = parse_prompt_rows(read_file(path, kMaxFileBytes), path.string(), forced);
    const std::size_t n_all = rows.size();
    rows.resize(static_cast<std::size_t>(std::floor(options.share * static_cast<double>(n_all) + 1e-9)));
    left_out.beyond_share += static_cast<std::int64_t>(n_all - rows.size());
    for (const PromptRowText& row : rows) {
      WarmupPrompt prompt;
      prompt.tokens = chat.render(*tokenizer, {{"user", row.prompt}}, /*add_generation_prompt=*/true);
      if (prompt.tokens.empty() || prompt.tokens.size() >= context) {
        ++left_out.without_room;
        continue;
      }
      if (forced) {
        prompt.response = tokenizer->encode(row.response, SpecialTokens::kAsText);
        prompt.response.push_back(config.eos_ids.front());
        const std::size_t room = std::min<std::size_t>(options.max_tokens, context - prompt.tokens.size());
        prompt.response.resize(std::min(prompt.response.size(), room));
      }
      prompt.heldout = hash_tokens(prompt.tokens) % kHeldoutOf == 0;
      prompts.push_back(std::move(prompt));
    }
  }
  return prompts;
}

}  // namespace slip
