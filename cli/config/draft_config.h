// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "distill/warmup/warmup.h"

namespace slip::cli {

// Reads a draft's configuration file: its shape and, under [training], how to train it. Absent keys leave `options`
// unchanged. Error{kInvalidArgument} naming file, line and key; for an unknown key also the nearest known one.
void apply_draft_config(const std::string& toml, const std::string& where, WarmupOptions& options);

// Reads "target" or "data". Error{kInvalidArgument}.
AnswersFrom parse_answers_from(const std::string& name);
// Reads "mixed", which is nullopt, or a number from 0 to 2. Error{kInvalidArgument}.
std::optional<float> parse_answer_temperature(const std::string& text);

}  // namespace slip::cli
