// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The name of the base draft, from which topics without a draft of their own start; also its folder in the draft store.
inline constexpr const char* kBaseDraft = "base";

// The meta.json of a draft version, stored beside its weights. It informs people and restores the ledger after a crash.
struct DraftMeta {
  std::string draft;                  // is_topic_name()
  std::uint64_t version = 0;          // 1, 2, … per draft; never reused
  std::uint64_t parent = 0;           // version of parent_draft that it was trained or copied from; 0 for the first
  std::string parent_draft;           // this draft, or kBaseDraft; never empty after reading or writing
  std::string topic;                  // empty for the base draft
  std::string target;                 // folder name of the target
  std::string target_fingerprint;     // hash of the target's config and tokenizer
  std::int64_t created_us = 0;        // wall clock, UTC
  std::string reason;                 // "base", "canary", "rollback", "warmup"
  std::uint64_t optimizer_steps = 0;  // total since the base draft
  std::uint64_t trained_requests = 0;
  double heldout_alpha_before = 0;  // of the draft live before, on the canary's records
  double heldout_alpha = 0;         // this version on the same records
  double p_value = 1;
  std::string weights_sha256;    // of model.safetensors, 64 hex digits
  bool rolled_back = false;      // performed worse than its predecessor; used only if no other version is intact
  bool weights_retired = false;  // the weights were deleted; only this file remains
};

std::string to_json(const DraftMeta& meta);
// Error{kInvalidArgument} naming `where` and the key. Unknown keys are ignored, so older programs can read newer files.
DraftMeta parse_draft_meta(const std::string& json, const std::string& where);

// meta.parent_draft; for files older than that key, the derived value.
std::string parent_draft_of(const DraftMeta& meta);

// A figure of the version's measurement on held-out text; empty if there was none. A canary measured a version that it
// published, and a warm-up the draft that it made. A store's base draft and a restored version were not measured.
std::optional<double> if_measured(const DraftMeta& meta, double figure);

// The largest version number. A folder with a larger number is no version.
inline constexpr std::uint64_t kMaxVersion = (std::uint64_t{1} << 62) - 1;
// The folder name of a version: 42 is "v000042".
std::string version_name(std::uint64_t version);
// Accepts only the spelling of version_name(), from 1 to kMaxVersion.
std::optional<std::uint64_t> parse_version_name(std::string_view name);

}  // namespace slip
