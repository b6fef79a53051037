// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/file.h"

namespace slip {

// What is written beside a version's weights, for people and for reconciling the ledger after a crash.
struct DraftMeta {
  std::string draft;                  // name, ^[a-z0-9][a-z0-9_-]{0,47}$
  std::uint64_t version = 0;          // 1, 2, … per draft; never reused
  std::uint64_t parent = 0;           // version it was trained from; 0 for the first
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
  std::string weights_sha256;  // of model.safetensors, 64 hex digits
};

std::string to_json(const DraftMeta& meta);
DraftMeta parse_draft_meta(const std::string& json, const std::string& where);

struct RetentionPolicy {
  int keep_last = 8;
  std::int64_t keep_younger_than_us = std::int64_t{7} * 24 * 3600 * 1'000'000;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
};

// The versioned store of drafts:  <root>/<name>/v000042/{config.json, model.safetensors, meta.json, tokenizer files}
// and <root>/<name>/CURRENT. Publish = write into a temporary folder → fsync files → rename → fsync directory → replace
// CURRENT atomically. A crash at any instant leaves either the old version current or the new one; leftovers are swept
// on open. Opened by name with openat + O_NOFOLLOW below the root, so a planted symlink or `..` never leaves it.
// Threads: one writer (the trainer); readers may call current(), load paths and list from any thread.
class DraftStore {
 public:
  explicit DraftStore(std::filesystem::path root, RetentionPolicy policy = {});

  // Moves a complete Hugging Face folder (config.json + model.safetensors [+ tokenizer]) prepared at staging_folder()
  // in as the next version of meta.draft; fills in version, created_us and weights_sha256, returns the meta as written.
  // Fail points `publish.*`.
  DraftMeta publish(const std::filesystem::path& staged, DraftMeta meta);
  // A fresh empty folder on the store's own filesystem, for the trainer to export into.
  std::filesystem::path staging_folder(const std::string& draft);
  // Makes an older version current again (rollback); the bad version stays on disk, marked in its meta.json.
  void set_current(const std::string& draft, std::uint64_t version);

  std::optional<DraftMeta> current(
      const std::string& draft) const;  // verified: falls back to the newest intact version when CURRENT's is damaged
  std::vector<DraftMeta> versions(
      const std::string& draft) const;  // ascending; versions whose weights were retired included
  std::vector<std::string> drafts() const;
  std::filesystem::path folder(const std::string& draft, std::uint64_t version) const;
  // Retires weights outside the policy, never those of live, current or last-known-good; meta.json stays.
  void apply_retention(const std::string& draft, std::uint64_t live, std::uint64_t last_known_good);

  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
  RetentionPolicy policy_;
};

bool is_valid_draft_name(const std::string& name);

// <data>/LOCK held by flock for the life of the process. Throws Error{kConflict} naming the holder's pid.
class DataDirectoryLock {
 public:
  explicit DataDirectoryLock(const std::filesystem::path& data_directory);

 private:
  FileHandle file_;
};

}  // namespace slip
