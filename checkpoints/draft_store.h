// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/data_directory_lock.h"
#include "checkpoints/draft_meta.h"
#include "checkpoints/retention.h"
#include "checkpoints/store_folder.h"
#include "common/patient_clock.h"

namespace slip {

// The versioned store of drafts:  <root>/<name>/v000042/{config.json, model.safetensors, meta.json, tokenizer files}
// and <root>/<name>/CURRENT. Publish = write into a temporary folder → fsync files → rename → fsync directory → replace
// CURRENT atomically. A crash at any instant leaves either the old version current or the new one; leftovers are swept
// on open, so the owner of the data directory (DataDirectoryLock) alone opens it. Everything below the root is reached
// with openat + O_NOFOLLOW, so a planted symlink or `..` never leaves it. A name that is_valid_draft_name refuses is
// Error{kInvalidArgument}.
// Threads: one writer (the trainer); readers may call current(), load paths and list from any thread.
class DraftStore {
 public:
  explicit DraftStore(const std::filesystem::path& root, RetentionPolicy policy = {});

  // Moves a complete Hugging Face folder (config.json + model.safetensors [+ tokenizer]) prepared at staging_folder()
  // in as the next version of meta.draft; fills in version, created_us and weights_sha256, returns the meta as written.
  // Fail points `publish.*`.
  DraftMeta publish(const std::filesystem::path& staged, DraftMeta meta);
  // A fresh empty folder on the store's own filesystem, for the trainer to export into.
  std::filesystem::path staging_folder(const std::string& draft);
  // Makes an older version current again (rollback); the bad version stays on disk, marked in its meta.json.
  // Error{kNotFound | kDataLoss} when `version` is gone or damaged. Fail points `rollback.*`.
  void set_current(const std::string& draft, std::uint64_t version);

  std::optional<DraftMeta> current(
      const std::string& draft) const;  // verified: falls back to the newest intact version when CURRENT's is damaged
  std::vector<DraftMeta> versions(
      const std::string& draft) const;  // ascending; versions whose weights were retired included
  std::vector<std::string> drafts() const;
  // Where a version is or would be; Error{kPermission} when a symbolic link stands in its place.
  std::filesystem::path folder(const std::string& draft, std::uint64_t version) const;
  // Retires weights outside the policy, never those of live, current or last-known-good; meta.json stays.
  void apply_retention(const std::string& draft, std::uint64_t live, std::uint64_t last_known_good);
  // Retires versions that are in this draft's folder by mistake, and makes the newest intact one of the others current
  // where there is one. Their numbers are not used again. Fail points `rollback.*`, `retire.*`.
  void discard(const std::string& draft, const std::set<std::uint64_t>& versions);

  const std::filesystem::path& root() const { return root_folder_.path(); }

 private:
  using VersionKey = std::pair<std::string, std::uint64_t>;
  // What was hashed once and need not be again until the file changes.
  struct FileStamp {
    std::uint64_t inode = 0, bytes = 0;
    std::int64_t modified_ns = 0;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
  };

  static FileStamp stamp_of(const FileHandle& file);
  StoreFolder draft_folder(const std::string& draft) const;
  std::uint64_t current_number(const StoreFolder& folder) const;
  std::optional<DraftMeta> intact(const StoreFolder& folder, const std::string& draft, std::uint64_t version) const;
  void verify_weights(const StoreFolder& version_folder, const DraftMeta& meta) const;
  std::optional<DraftMeta> newest_intact(const StoreFolder& folder, const std::string& draft,
                                         const std::set<std::uint64_t>& except = {}) const;
  std::uint64_t weight_bytes(const std::string& draft) const;
  void sweep() const;

  StoreFolder root_folder_;
  // A date that is a week ahead by mistake must not retire a week of versions before somebody mends it.
  static constexpr std::int64_t kClockPatienceUs = std::int64_t{24} * 3600 * 1'000'000;

  RetentionPolicy policy_;
  std::mutex writing_;
  PatientClock calendar_{kClockPatienceUs};
  std::atomic<std::uint64_t> n_staged_{0};
  mutable std::mutex verified_mutex_;
  mutable std::map<VersionKey, FileStamp> verified_;
  mutable std::set<VersionKey> reported_;  // damaged versions, each named once in the log; 0: CURRENT
};

}  // namespace slip
