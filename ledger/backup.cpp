// SPDX-License-Identifier: Apache-2.0
#include "ledger/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "ledger/database.h"
#include "ledger/figures.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr int kRetryMs = 50, kMaxRetries = 200;  // 10 s

[[noreturn]] void refuse_existing(const fs::path& file, const char* hint) {
  throw Error(ErrorCode::kConflict, file.string() + " exists already", hint, "out");
}

// The file that becomes the copy. It is created exclusively, and deleted unless it was kept.
class PartFile {
 public:
  explicit PartFile(const fs::path& to) : path_(to.string() + ".part") {
    handle_ = FileHandle(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (handle_) return;
    const int error = errno;
    path_.swap(not_ours_);
    if (error == EEXIST) refuse_existing(not_ours_, "another backup runs, or one was cut short: remove it then");
    throw Error(ErrorCode::kIo, "cannot create " + not_ours_.string() + ": " + std::strerror(error), {}, "out");
  }
  ~PartFile() {
    if (path_.empty()) return;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) ::unlink((path_.string() + suffix).c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const fs::path& path() const { return path_; }
  void keep_as(const fs::path& to) {
    sync_file(handle_.get(), "backup");
    fail_point("backup.rename");
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
      if (errno == EEXIST) refuse_existing(to, "choose another name");
      throw Error(ErrorCode::kIo, "cannot rename " + path_.string() + ": " + std::strerror(errno), {}, "out");
    }
    path_.clear();
    sync_directory(to.has_parent_path() ? to.parent_path() : ".", "backup");
  }

 private:
  fs::path path_, not_ours_;
  FileHandle handle_;
};

struct BackupFinisher {
  void operator()(sqlite3_backup* backup) const { sqlite3_backup_finish(backup); }
};

// Copies all pages in one step. This is one read transaction, which does not block the writer of a WAL database.
void copy_pages(const Database& from, const Database& to) {
  const std::unique_ptr<sqlite3_backup, BackupFinisher> backup(
      sqlite3_backup_init(to.get(), "main", from.get(), "main"));
  if (!backup) to.fail(sqlite3_errcode(to.get()), "begin a backup into");
  for (int retries = 0;; ++retries) {
    fail_point("backup.copy");
    const int result = sqlite3_backup_step(backup.get(), /*nPage=*/-1);
    if (result == SQLITE_DONE) return;
    const bool busy = (result & 0xFF) == SQLITE_BUSY || (result & 0xFF) == SQLITE_LOCKED;
    if (!busy || retries == kMaxRetries) to.fail(result, "copy the ledger into");
    sqlite3_sleep(kRetryMs);
  }
}

LedgerBackup check_copy(Database& copy, const fs::path& file) {
  Statement check(copy, "PRAGMA integrity_check(1)");
  if (!check.step() || check.text(0) != "ok") copy.damaged(check.text(0));
  check.reset();
  return {fs::file_size(file), copy.integer("SELECT COUNT(*) FROM requests")};
}

}  // namespace

LedgerBackup back_up_ledger(const fs::path& from, const fs::path& to) {
  refuse_database_as_output(to, from, "--out");
  if (fs::symlink_status(to).type() != fs::file_type::not_found) refuse_existing(to, "choose another name");
  const Database source = open_ledger_to_read(from);
  PartFile part(to);
  LedgerBackup result;
  {
    Database copy(part.path(), Database::Mode::kReadWrite);
    copy.is_copy_of(source);
    copy_pages(source, copy);
    copy.execute("PRAGMA journal_mode = DELETE");  // makes the copy a single file; copied pages say WAL
    result = check_copy(copy, part.path());
  }
  part.keep_as(to);
  return result;
}

}  // namespace slip
