// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "server/http/json_text.h"
#include "server/openai/answer.h"

namespace slip {

// Writes the "logprobs" of a choice or of a piece of its stream, in its endpoint's form; null when not requested. For a
// completion with a scored prompt the prompt's tokens come first, one entry each, including special ones, so that
// clients can count them. The first has null, since it has no predecessor. Pure; any thread.
void write_logprobs(JsonText& json, const AnswerIdentity& who, std::size_t choice, const AnswerPart& part);

// The position at which the choice's next piece begins.
TextPlace place_behind(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part);

}  // namespace slip
