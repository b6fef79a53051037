// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slip {

// The draft that topics without one of their own start from, and its folder in the draft store.
inline constexpr const char* kBaseDraft = "base";

// What is written beside a version's weights, for people and for reconciling the ledger after a crash.
struct DraftMeta {
  std::string draft;                  // name, ^[a-z0-9][a-z0-9_-]{0,47}$
  std::uint64_t version = 0;          // 1, 2, … per draft; never reused
  std::uint64_t parent = 0;           // version of parent_draft that it was trained from or copies; 0 for the first
  std::string parent_draft;           // this draft, or kBaseDraft; never empty once written or read
  std::string topic;                  // empty for the base draft
  std::string target;                 // target's folder name
  std::string target_fingerprint;     // hash of the target's config and tokenizer
  std::int64_t created_us = 0;        // wall clock, UTC
  std::string reason;                 // "base", "canary", "rollback", "warmup"
  std::uint64_t optimizer_steps = 0;  // total since the base draft
  std::uint64_t trained_requests = 0;
  double heldout_alpha_before = 0;  // the live draft on the canary's records
  double heldout_alpha = 0;         // this version on the same records
  double p_value = 1;
  std::string weights_sha256;    // of model.safetensors, 64 hex digits
  bool rolled_back = false;      // served and lost against its predecessor; never chosen while another is intact
  bool weights_retired = false;  // only this record is left
};

std::string to_json(const DraftMeta& meta);
// Error{kInvalidArgument} naming `where` and the key; unknown keys are ignored, so that older programs read newer
// files.
DraftMeta parse_draft_meta(const std::string& json, const std::string& where);

// meta.parent_draft, or what it must have been in a file from before that key.
std::string parent_draft_of(const DraftMeta& meta);

bool is_valid_draft_name(const std::string& name);

// A version's folder in the store: 42 is "v000042".
std::string version_name(std::uint64_t version);
// Only the one spelling that version_name gives.
std::optional<std::uint64_t> parse_version_name(std::string_view name);

}  // namespace slip
