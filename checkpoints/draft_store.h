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

// The versioned store of drafts. Each version is <root>/<name>/v000042/ with config.json, model.safetensors, meta.json
// and tokenizer files; <root>/<name>/CURRENT names the current one.
//
// Publish = write into a temporary folder → fsync files → rename → fsync directory → replace CURRENT atomically. A
// crash at any instant leaves either the old version current or the new one. Leftovers are swept on open, so only the
// owner of the data directory (DataDirectoryLock) may open it. All paths below the root use openat + O_NOFOLLOW, so a
// planted symlink or `..` never leaves it. Error{kInvalidArgument} for a name that is_topic_name() refuses.
// Threads: one writer (the learner). Any thread may call current(), load paths and list.
class DraftStore {
 public:
  explicit DraftStore(const std::filesystem::path& root, RetentionPolicy policy = {});

  // Publishes the Hugging Face folder prepared at staging_folder() (config.json, model.safetensors, optional tokenizer)
  // as the next version of meta.draft, by moving it. Sets version, created_us and weights_sha256, and returns the meta
  // as written. Fail points `publish.*`.
  DraftMeta publish(const std::filesystem::path& staged, DraftMeta meta);
  // A new empty folder on the store's file system, for publish().
  std::filesystem::path staging_folder(const std::string& draft);
  // Makes an older version current again (rollback). The bad version stays on disk, marked in its meta.json.
  // Error{kNotFound | kDataLoss} when `version` is missing or damaged. Fail points `rollback.*`.
  void set_current(const std::string& draft, std::uint64_t version);

  std::optional<DraftMeta> current(
      const std::string& draft) const;  // verified; falls back to the newest intact version if CURRENT's is damaged
  std::vector<DraftMeta> versions(
      const std::string& draft) const;  // ascending; includes versions whose weights were retired
  std::vector<std::string> drafts() const;
  // The folder of a version, existing or not. Error{kPermission} when it is a symbolic link.
  std::filesystem::path folder(const std::string& draft, std::uint64_t version) const;
  // Deletes weights outside the retention policy, except those of live, current and last-known-good; meta.json stays.
  void apply_retention(const std::string& draft, std::uint64_t live, std::uint64_t last_known_good);
  // Retires versions that are in this draft's folder by mistake, and makes the newest other intact version current, if
  // any. Their numbers are not reused. Fail points `rollback.*`, `retire.*`.
  void discard(const std::string& draft, const std::set<std::uint64_t>& versions);

  const std::filesystem::path& root() const { return root_folder_.path(); }

 private:
  using VersionKey = std::pair<std::string, std::uint64_t>;
  // The state of a file when it was hashed. It is hashed again only after a change.
  struct FileStamp {
    std::uint64_t inode = 0, bytes = 0;
    std::int64_t modified_ns = 0;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
  };

  static FileStamp stamp_of(const FileHandle& file);
  StoreFolder draft_folder(const std::string& draft) const;
  std::uint64_t current_number(const StoreFolder& folder) const;
  void say_newest_is_used(const StoreFolder& folder, const std::string& why) const;
  std::optional<DraftMeta> intact(const StoreFolder& folder, const std::string& draft, std::uint64_t version) const;
  void verify_weights(const StoreFolder& version_folder, const DraftMeta& meta) const;
  std::optional<DraftMeta> newest_intact(const StoreFolder& folder, const std::string& draft,
                                         const std::set<std::uint64_t>& except = {}) const;
  static std::uint64_t weight_bytes(const StoreFolder& draft, std::uint64_t version);
  std::uint64_t weight_bytes(const std::string& draft) const;
  std::int64_t sweep(std::int64_t wall_us) const;
  void say_if_over(std::uint64_t bytes);

  StoreFolder root_folder_;
  // A date a week in the future must not retire a week of versions before someone corrects it.
  static constexpr std::int64_t kClockPatienceUs = std::int64_t{24} * 3600 * 1'000'000;

  RetentionPolicy policy_;
  std::mutex writing_;
  bool is_over_ = false;  // more bytes than policy_.max_bytes are left; guarded by writing_
  PatientClock calendar_{kClockPatienceUs};
  std::atomic<std::uint64_t> n_staged_{0};
  mutable std::mutex verified_mutex_;
  mutable std::map<VersionKey, FileStamp> verified_;
  mutable std::set<VersionKey> reported_;  // damaged versions already logged; version 0: CURRENT
};

}  // namespace slip
