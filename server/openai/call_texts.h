// SPDX-License-Identifier: Apache-2.0
// The texts of a call as tokens, and back. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/openai/call.h"
#include "server/openai/served_model.h"

namespace slip {

// Messages as one prompt. Error{kUnsupported} if the model has no chat template, else its own errors.
std::vector<std::int32_t> render(const ServedModel& model, const std::vector<ChatMessage>& messages,
                                 bool add_generation_prompt);
// The tokens of each of a call's prompts; of a chat's messages as one prompt.
std::vector<std::vector<std::int32_t>> tokenise(const ServedModel& model, const CompletionCall& call);
// The tokens of the answer that the client expects, at most as many as the context: further ones could not come.
std::vector<std::int32_t> predicted_tokens(const ServedModel& model, const CompletionCall& call);
// The prompt as the client sees it: its text, or the text of its token ids.
std::string echo_of(const ServedModel& model, const Prompt& prompt);
// The text for routing: the user's last message, since a system prompt is equal for all topics. A call's prompts are
// assumed to share a topic.
std::string asked_text(const ServedModel& model, const CompletionCall& call);

}  // namespace slip
