// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distill/warmup/warmup.h"

namespace slip {

struct WarmupPrompt {
  std::vector<std::int32_t> tokens;    // the chat template's rendering of one user message
  std::vector<std::int32_t> response;  // the given answer with its end token; empty unless AnswersFrom::kData
  bool heldout = false;                // by hash of the tokens: a tenth is scored and never trained on
};

// The first `share` of each file's rows, in order. Prompts that leave no room for an answer in the target's context, or
// that have none, are left out and counted in `left_out`. Error{kInvalidArgument | kNotFound | kTooLarge} naming file
// and line.
std::vector<WarmupPrompt> read_warmup_prompts(const WarmupOptions& options, std::int64_t& left_out);

struct PromptRowText {
  std::string prompt, response;
};
// Pure. `needs_response`: a row without one is an error.
std::vector<PromptRowText> parse_prompt_rows(std::string_view jsonl, const std::string& where, bool needs_response);

}  // namespace slip
