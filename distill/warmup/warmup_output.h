// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "checkpoints/draft_meta.h"
#include "distill/warmup/warmup.h"

namespace slip {

// Copies the target's tokenizer files (kTokenizerFiles), as far as they exist, into a folder of weights. That makes it
// a complete Hugging Face checkpoint. Error{kTooLarge | kIo}. Fail points `warmup.words.*`.
void copy_tokenizer_files(const std::filesystem::path& target, const std::filesystem::path& folder);

// Completes `meta` (name, target, time, reason "warmup", SHA-256 of the weights in `folder`) and writes meta.json.
// Error{kIo}. Fail points `warmup.meta.*`.
void write_warmup_meta(const std::filesystem::path& folder, const WarmupOptions& options, DraftMeta meta);

}  // namespace slip
