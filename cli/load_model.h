// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/models/transformer.h"
#include "engine/speculative/live_draft.h"
#include "text/tokenizer.h"

namespace slip::cli {

// "bfloat16" or "float32"; anything else is Error{kInvalidArgument}.
Dtype parse_dtype(const std::string& name);
// Error{kInvalidArgument} for another than "cpu" and "cuda"; Error{kUnsupported} for a dtype that a device does not do.
Device parse_device(const std::string& name, Dtype dtype);

// A target as commands use it: weights and words, read from one Hugging Face folder.
struct TargetModel {
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<const Tokenizer> tokenizer;
};
TargetModel load_target(const std::filesystem::path& folder, Dtype dtype);

// Error{kInvalidArgument} naming the first token id in which a draft's vocabulary differs from its target's; reads
// configurations and tokenizers only.
void check_draft_vocabulary(const std::filesystem::path& draft, const std::filesystem::path& target);

// Weights of a draft for this target, finite and of its vocabulary; else Error{kInvalidArgument} naming the first token
// id that differs. A draft folder without a tokenizer is compared by size alone.
std::shared_ptr<const ModelWeights> load_draft_weights(const std::filesystem::path& folder, Dtype dtype,
                                                       const TargetModel& target);

}  // namespace slip::cli
