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

// How many prompts of the files are not used, and why.
struct PromptsLeftOut {
  std::int64_t beyond_share = 0;  // after the first `share` of their file
  std::int64_t without_room = 0;  // in the target's context, for an answer
};

// Reads the first `share` of each file's rows, in order, and counts in `left_out` those that are not used.
// Error{kInvalidArgument | kNotFound | kTooLarge} naming file and line.
std::vector<WarmupPrompt> read_warmup_prompts(const WarmupOptions& options, PromptsLeftOut& left_out);

struct PromptRowText {
  std::string prompt, response;
};
// Parses JSONL rows. `where` names the file in errors. `needs_response`: a row without a response is an error. Pure.
std::vector<PromptRowText> parse_prompt_rows(std::string_view jsonl, const std::string& where, bool needs_response);

}  // namespace slip
