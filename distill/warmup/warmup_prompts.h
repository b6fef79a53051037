// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distill/warmup/warmup.h"

namespace slip {

struct WarmupPrompt {
  std::vector<std::int32_t> tokens;    // one user message, rendered by the chat template
  std::vector<std::int32_t> response;  // the given answer with its end token; empty unless AnswersFrom::kData
  bool heldout = false;                // scored but never trained on: a tenth of all, by hash of the tokens
};

// Reads the first `share` of each file's rows, in order. Leaves out prompts without room for an answer in the target's
// context, or without an answer, and counts them in `left_out`. Error{kInvalidArgument | kNotFound | kTooLarge} naming
// file and line.
std::vector<WarmupPrompt> read_warmup_prompts(const WarmupOptions& options, std::int64_t& left_out);

struct PromptRowText {
  std::string prompt, response;
};
// Parses JSONL rows. `where` names the file in errors. `needs_response`: a row without a response is an error. Pure.
std::vector<PromptRowText> parse_prompt_rows(std::string_view jsonl, const std::string& where, bool needs_response);

}  // namespace slip
