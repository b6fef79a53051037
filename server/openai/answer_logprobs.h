// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "server/http/json_text.h"
#include "server/openai/answer.h"

namespace slip {

// Writes the "logprobs" of a choice, or of a piece of its stream, in its endpoint's form; null when they were not asked
// for.
// For a completion whose prompt is scored the prompt's tokens stand first, each with an entry, special ones too, so
// that clients can count them; the first has null, since nothing comes before it. Pure; any thread.
void write_logprobs(JsonText& json, const AnswerIdentity& who, std::size_t choice, const AnswerPart& part);

// Where the next piece of the choice begins, behind this one.
TextPlace place_behind(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part);

}  // namespace slip
