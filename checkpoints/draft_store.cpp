// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/draft_store.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <string_view>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/topic_name.h"

namespace slip {
namespace {

constexpr const char* kCurrentFile = "CURRENT";
constexpr const char* kMetaFile = "meta.json";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kWeightsFile = "model.safetensors";
constexpr std::string_view kStagingPrefix = ".staging-";
constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 20;

std::vector<std::uint64_t> version_numbers(const StoreFolder& draft) {
  std::vector<std::uint64_t> numbers;
  for (const auto& name : draft.names()) {
    if (const auto version = parse_version_name(name)) numbers.push_back(*version);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::uint64_t read_current(const StoreFolder& draft) {
  std::string text = draft.read(kCurrentFile, /*max_bytes=*/64);
  if (text.ends_with('\n')) text.pop_back();
  const auto version = parse_version_name(text);
  if (version) return *version;
  throw Error(ErrorCode::kDataLoss, (draft.path() / kCurrentFile).string() + " names no version");
}

DraftMeta read_meta(const StoreFolder& version_folder) {
  return parse_draft_meta(version_folder.read(kMetaFile, kMaxMetaBytes), (version_folder.path() / kMetaFile).string());
}

void write_current(const StoreFolder& draft, std::uint64_t version, std::string_view point) {
  draft.replace(kCurrentFile, version_name(version) + "\n", point);
}

void check_name(const std::string& draft) {
  if (is_topic_name(draft)) return;
  throw Error(ErrorCode::kInvalidArgument, "not a draft name: 1 to 48 of a-z, 0-9, _ and -, beginning with a-z or 0-9",
              "rename it", "draft");
}

bool same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  return (one / "").lexically_normal() == (other / "").lexically_normal();
}

// Checks that every entry is a regular file: a published version holds no links and no folders.
void check_staged(const StoreFolder& staged) {
  for (const char* name : {kConfigFile, kWeightsFile}) {
    if (!staged.contains(name)) {
      throw Error(ErrorCode::kInvalidArgument, (staged.path() / name).string() + " is missing", "export it first");
    }
  }
  for (const auto& name : staged.names()) staged.open_file(name);
}

void mark_rolled_back(const StoreFolder& draft, std::uint64_t version, bool bad) {
  const auto folder = draft.child_if_there(version_name(version));
  if (!folder) return;
  DraftMeta meta = read_meta(*folder);
  if (meta.rolled_back == bad) return;
  meta.rolled_back = bad;
  folder->replace(kMetaFile, to_json(meta), "rollback.meta");
}

void retire(const StoreFolder& version_folder) {
  DraftMeta meta = read_meta(version_folder);
  if (!meta.weights_retired) {
    meta.weights_retired = true;
    version_folder.replace(kMetaFile, to_json(meta), "retire.meta");
  }
  for (const auto& name : version_folder.names()) {
    if (name != kMetaFile) version_folder.remove(name);
  }
}

// What cannot be removed stays, and hides nothing else.
void remove_leftover(const StoreFolder& folder, const std::string& name) {
  try {
    folder.remove(name);
  } catch (const Error& error) {
    log_warn("draft store: what a crash left cannot be removed: " + error.message());
  }
}

void remove_unfinished_files(const StoreFolder& folder) {
  for (const auto& name : folder.names()) {
    if (name.ends_with(".tmp")) remove_leftover(folder, name);
  }
}

// Returns when the version was created; 0 if that cannot be read, so that a damaged version hides no other one.
std::int64_t sweep_version(const StoreFolder& draft, std::uint64_t version) {
  std::int64_t created_us = 0;
  try {
    const StoreFolder folder = draft.child(version_name(version));
    remove_unfinished_files(folder);
    const DraftMeta meta = read_meta(folder);
    created_us = meta.created_us;
    if (meta.weights_retired) retire(folder);
  } catch (const Error& error) {
    log_warn("draft store: " + error.message());
  }
  return created_us;
}

}  // namespace

DraftStore::DraftStore(const std::filesystem::path& root, RetentionPolicy policy)
    : root_folder_(StoreFolder::open_root(root)), policy_(policy) {
  const std::int64_t wall = wall_us(), newest_us = sweep(wall), now = monotonic_us();
  calendar_.continue_from(newest_us, now);
  calendar_.believe(wall, now);
}

// Removes leftovers of a crash. What cannot be swept is skipped, so that opening still succeeds. Returns when the
// newest version was created, as NewestStored; 0: there is none.
std::int64_t DraftStore::sweep(std::int64_t wall_us) const {
  NewestStored newest(wall_us);
  for (const auto& name : root_folder_.names()) {
    if (name.starts_with(kStagingPrefix)) remove_leftover(root_folder_, name);
  }
  for (const auto& name : drafts()) {
    try {
      const StoreFolder draft = draft_folder(name);
      remove_unfinished_files(draft);
      for (const auto version : version_numbers(draft)) newest.see(sweep_version(draft, version));
    } catch (const Error& error) {
      log_warn("draft store: " + error.message());
    }
  }
  return newest.us();
}

StoreFolder DraftStore::draft_folder(const std::string& draft) const {
  check_name(draft);
  return root_folder_.child(draft);
}

std::filesystem::path DraftStore::staging_folder(const std::string& draft) {
  check_name(draft);
  const std::string name =
      std::string(kStagingPrefix) + draft + "-" + std::to_string(::getpid()) + "-" + std::to_string(++n_staged_);
  root_folder_.remove(name);
  return root_folder_.make_child(name).path();
}

DraftMeta DraftStore::publish(const std::filesystem::path& staged, DraftMeta meta) {
  check_name(meta.draft);
  const std::string staged_name = staged.filename().string();
  if (!same_folder(staged.parent_path(), root()) || !staged_name.starts_with(kStagingPrefix)) {
    throw Error(ErrorCode::kInvalidArgument, staged.string() + " is not a staging folder of this draft store");
  }
  const std::lock_guard lock(writing_);
  const StoreFolder source = root_folder_.child(staged_name);
  check_staged(source);
  const bool is_new = !root_folder_.contains(meta.draft);
  const StoreFolder draft = root_folder_.make_child(meta.draft);
  if (is_new) root_folder_.sync("publish.root");

  const auto numbers = version_numbers(draft);
  const std::uint64_t newest = std::max(numbers.empty() ? 0 : numbers.back(), current_number(draft));
  if (newest == kMaxVersion) {
    throw Error(ErrorCode::kIo, (draft.path() / version_name(newest)).string() + " has the largest number of a version",
                "stop the service, then remove the folder, or the CURRENT that names it");
  }
  meta.version = newest + 1;
  meta.created_us = wall_us();
  meta.weights_sha256 = sha256_of(source.open_file(kWeightsFile).get(), staged.string());
  meta.rolled_back = meta.weights_retired = false;
  meta.parent_draft = parent_draft_of(meta);
  source.replace(kMetaFile, to_json(meta), "publish.meta");
  for (const auto& name : source.names()) source.sync_file_in(name, "publish.file");
  source.sync("publish.folder");
  root_folder_.rename_child(staged_name, draft, version_name(meta.version), "publish.version");
  draft.sync("publish.version");
  write_current(draft, meta.version, "publish.current");
  return meta;
}

void DraftStore::set_current(const std::string& draft, std::uint64_t version) {
  const std::lock_guard lock(writing_);
  const StoreFolder folder = draft_folder(draft);
  if (!folder.contains(version_name(version))) {
    throw Error(ErrorCode::kNotFound, draft + " has no version " + std::to_string(version));
  }
  if (!intact(folder, draft, version)) {
    throw Error(ErrorCode::kDataLoss, draft + " version " + std::to_string(version) + " is damaged or retired");
  }
  const std::uint64_t before = current_number(folder);
  write_current(folder, version, "rollback.current");
  mark_rolled_back(folder, version, /*bad=*/false);
  if (before > version) mark_rolled_back(folder, before, /*bad=*/true);
}

std::optional<DraftMeta> DraftStore::current(const std::string& draft) const {
  check_name(draft);
  const auto folder = root_folder_.child_if_there(draft);
  if (!folder) return std::nullopt;
  const std::uint64_t version = current_number(*folder);
  if (version != 0) {
    if (auto meta = intact(*folder, draft, version)) return meta;
  }
  auto newest = newest_intact(*folder, draft);
  if (newest && !folder->contains(kCurrentFile))
    say_newest_is_used(*folder, (folder->path() / kCurrentFile).string() + " is missing");
  return newest;
}

std::optional<DraftMeta> DraftStore::newest_intact(const StoreFolder& folder, const std::string& draft,
                                                   const std::set<std::uint64_t>& except) const {
  const auto numbers = version_numbers(folder);
  std::optional<DraftMeta> last_resort;
  for (auto version = numbers.rbegin(); version != numbers.rend(); ++version) {
    if (except.contains(*version)) continue;
    auto meta = intact(folder, draft, *version);
    if (meta && !meta->rolled_back) return meta;
    if (meta && !last_resort) last_resort = std::move(meta);
  }
  return last_resort;
}

std::optional<DraftMeta> DraftStore::intact(const StoreFolder& folder, const std::string& draft,
                                            std::uint64_t version) const {
  try {
    const StoreFolder version_folder = folder.child(version_name(version));
    DraftMeta meta = read_meta(version_folder);
    if (meta.draft != draft || meta.version != version) {
      throw Error(ErrorCode::kDataLoss, (version_folder.path() / kMetaFile).string() + " describes another version");
    }
    if (meta.weights_retired) return std::nullopt;
    version_folder.open_file(kConfigFile);
    verify_weights(version_folder, meta);
    return meta;
  } catch (const Error& error) {
    const std::lock_guard lock(verified_mutex_);
    if (reported_.insert({draft, version}).second) log_warn("draft store: version not used: " + error.message());
    return std::nullopt;
  }
}

// 0 when CURRENT is absent or unreadable; the caller then uses the newest intact version.
std::uint64_t DraftStore::current_number(const StoreFolder& folder) const {
  if (!folder.contains(kCurrentFile)) return 0;
  try {
    return read_current(folder);
  } catch (const Error& error) {
    say_newest_is_used(folder, error.message());
    return 0;
  }
}

// Once for each draft.
void DraftStore::say_newest_is_used(const StoreFolder& folder, const std::string& why) const {
  const std::lock_guard lock(verified_mutex_);
  const bool is_first = reported_.insert({folder.path().filename().string(), 0}).second;
  if (is_first) log_warn("draft store: " + why + "; the newest intact version is used");
}

DraftStore::FileStamp DraftStore::stamp_of(const FileHandle& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw Error(ErrorCode::kIo, "cannot stat a weight file");
  return {static_cast<std::uint64_t>(status.st_ino), static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void DraftStore::verify_weights(const StoreFolder& version_folder, const DraftMeta& meta) const {
  const FileHandle weights = version_folder.open_file(kWeightsFile);
  const FileStamp stamp = stamp_of(weights);
  const auto key = std::make_pair(meta.draft, meta.version);
  {
    const std::lock_guard lock(verified_mutex_);
    const auto known = verified_.find(key);
    if (known != verified_.end() && known->second == stamp) return;
  }
  const std::string where = (version_folder.path() / kWeightsFile).string();
  if (sha256_of(weights.get(), where) != meta.weights_sha256) {
    throw Error(ErrorCode::kDataLoss, where + " does not match the SHA-256 in its meta.json");
  }
  // A file changed within the clock's resolution may change again without a new time stamp, so it is hashed again.
  constexpr std::int64_t kSettledUs = 1'000'000;
  if (stamp.modified_ns / 1000 + kSettledUs > wall_us()) return;
  const std::lock_guard lock(verified_mutex_);
  verified_[key] = stamp;
}

std::vector<DraftMeta> DraftStore::versions(const std::string& draft) const {
  check_name(draft);
  std::vector<DraftMeta> metas;
  const auto folder = root_folder_.child_if_there(draft);
  if (!folder) return metas;
  for (const auto version : version_numbers(*folder)) {
    try {
      DraftMeta meta = read_meta(folder->child(version_name(version)));
      if (meta.version == version) metas.push_back(std::move(meta));  // else intact() says so
    } catch (const Error& error) {
      log_warn("draft store: " + error.message());
    }
  }
  return metas;
}

std::vector<std::string> DraftStore::drafts() const {
  std::vector<std::string> found;
  for (const auto& name : root_folder_.names()) {
    if (!is_topic_name(name)) continue;
    try {
      root_folder_.child(name);
      found.push_back(name);
    } catch (const Error& error) {
      log_warn("draft store: " + error.message());
    }
  }
  return found;
}

std::filesystem::path DraftStore::folder(const std::string& draft, std::uint64_t version) const {
  check_name(draft);
  const std::string name = version_name(version);
  if (const auto found = root_folder_.child_if_there(draft)) found->child_if_there(name);
  return root() / draft / name;
}

// 0 if there are none, or no regular file: one damaged version must not keep all others on the disk.
std::uint64_t DraftStore::weight_bytes(const StoreFolder& draft, std::uint64_t version) {
  try {
    const StoreFolder folder = draft.child(version_name(version));
    return folder.contains(kWeightsFile) ? stamp_of(folder.open_file(kWeightsFile)).bytes : 0;
  } catch (const Error&) {
    return 0;
  }
}

std::uint64_t DraftStore::weight_bytes(const std::string& draft) const {
  std::uint64_t bytes = 0;
  const StoreFolder folder = draft_folder(draft);
  for (const auto version : version_numbers(folder)) bytes += weight_bytes(folder, version);
  return bytes;
}

void DraftStore::apply_retention(const std::string& draft, std::uint64_t live, std::uint64_t last_known_good) {
  const std::lock_guard lock(writing_);
  const StoreFolder folder = draft_folder(draft);
  const std::uint64_t current_version = current_number(folder);
  std::uint64_t bytes_elsewhere = 0;
  for (const auto& other : drafts()) {
    if (other != draft) bytes_elsewhere += weight_bytes(other);
  }
  std::vector<StoredVersion> stored;
  for (const auto& meta : versions(draft)) {
    if (meta.weights_retired) continue;
    const std::uint64_t bytes = weight_bytes(folder, meta.version);
    if (bytes == 0) continue;
    const bool is_protected =
        meta.version == live || meta.version == current_version || meta.version == last_known_good;
    stored.push_back({meta.version, meta.created_us, bytes, is_protected});
  }
  const std::int64_t now = calendar_.believe(wall_us(), monotonic_us());
  for (const auto version : plan_retirement(stored, policy_, now, bytes_elsewhere)) {
    retire(folder.child(version_name(version)));
  }
  say_if_over(bytes_elsewhere + weight_bytes(draft));
}

void DraftStore::say_if_over(std::uint64_t bytes) {
  const bool is_over = bytes > policy_.max_bytes;
  if (is_over && !is_over_) {
    log_warn("draft store: the versions that are needed have " + std::to_string(bytes) +
             " bytes, more than drafts.max_bytes (" + std::to_string(policy_.max_bytes) +
             "); the live, the current and the last good version of a draft are never deleted");
  }
  is_over_ = is_over;
}

// Rewrites CURRENT first: after a crash in between, discard() can be repeated.
void DraftStore::discard(const std::string& draft, const std::set<std::uint64_t>& versions) {
  const std::lock_guard lock(writing_);
  const StoreFolder folder = draft_folder(draft);
  if (versions.contains(current_number(folder))) {
    if (const auto own = newest_intact(folder, draft, versions))
      write_current(folder, own->version, "rollback.current");
  }
  for (const auto version : versions) retire(folder.child(version_name(version)));
}

}  // namespace slip
