// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/models/transformer.h"
#include "engine/speculative/live_draft.h"
#include "text/tokenizer.h"

namespace slip::cli {

// Reads "bfloat16" or "float32"; Error{kInvalidArgument} for other names.
Dtype parse_dtype(const std::string& name);
// Reads "cpu" or "cuda"; Error{kInvalidArgument} for other names, Error{kUnsupported} for a dtype that the device
// lacks.
Device parse_device(const std::string& name, Dtype dtype);

// A target's weights and tokenizer, read from one Hugging Face folder.
struct TargetModel {
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<const Tokenizer> tokenizer;
};
// Error{kTooLarge} if the weights do not fit into memory, as the next function says.
TargetModel load_target(const std::filesystem::path& folder, Dtype dtype);

// The bytes of the weights of `folder`, whose config.json is `config`. Error{kTooLarge} if this process may not use
// that much (cli/process/usable_memory.h).
std::uint64_t require_memory_for_weights(const std::filesystem::path& folder, const ModelConfig& config, Dtype dtype);

// The template of chats: the file `configured`, or if that is empty the target's own. A configured template must load;
// a target without a usable one still serves completions, so this warns and returns null.
std::shared_ptr<const ChatTemplate> load_chat_template(const std::filesystem::path& target,
                                                       const std::filesystem::path& configured);

// Error{kInvalidArgument} naming the first token id that differs between the draft's and the target's vocabulary. Reads
// only configurations and tokenizers.
void check_draft_vocabulary(const std::filesystem::path& draft, const std::filesystem::path& target);

// The weights of a draft for this target. Error{kInvalidArgument} if they are not finite, or naming the first token id
// that differs. A draft folder without a tokenizer is compared by size alone.
std::shared_ptr<const ModelWeights> load_draft_weights(const std::filesystem::path& folder, Dtype dtype,
                                                       const TargetModel& target);

}  // namespace slip::cli
