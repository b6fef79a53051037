// SPDX-License-Identifier: Apache-2.0
#include "ledger/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

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

constexpr std::array<const char*, 3> kSideFiles = {"-journal", "-wal", "-shm"};

// Takes the lock that another backup holds until its file has another name. Not flock(), which on NFS and SMB would
// keep SQLite out too. The byte lies after all that SQLite writes or locks. False: another has it.
bool lock_part(int fd, const fs::path& path) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = std::numeric_limits<off_t>::max() - 1;
  lock.l_len = 1;
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw Error(ErrorCode::kIo, "cannot lock " + path.string() + ": " + std::strerror(errno), {}, "out");
}

// Whether a file may be what a backup that was cut short left: our own pages of SQLite, the first maybe not yet
// written.
bool is_left_over(int fd) {
  constexpr std::string_view kBegin("SQLite format 3\0", 16);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (status.st_uid != ::geteuid() || status.st_nlink != 1) return false;
  std::array<char, kBegin.size()> begin{};
  const ssize_t n = ::pread(fd, begin.data(), begin.size(), 0);
  if (n < 0) return false;
  const std::string_view text(begin.data(), static_cast<std::size_t>(n));
  return text == kBegin || text.find_first_not_of('\0') == std::string_view::npos;
}

// Creates the file, or empties what a backup left that was cut short.
FileHandle open_part(const fs::path& path) {
  for (;;) {
    FileHandle file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!file) {
      if (errno == ELOOP || errno == EISDIR) refuse_existing(path, "remove it, or choose another name");
      throw Error(ErrorCode::kIo, "cannot create " + path.string() + ": " + std::strerror(errno), {}, "out");
    }
    if (!lock_part(file.get(), path)) refuse_existing(path, "another backup runs: wait for its end");
    if (identity_of(file.get()) != identity_at(path)) continue;  // the other backup has ended: this is its copy
    if (!is_left_over(file.get())) refuse_existing(path, "no backup left it: remove it, or choose another name");
    if (::ftruncate(file.get(), 0) != 0 || ::fchmod(file.get(), 0600) != 0) {
      throw Error(ErrorCode::kIo, "cannot empty " + path.string() + ": " + std::strerror(errno), {}, "out");
    }
    for (const char* suffix : kSideFiles) ::unlink((path.string() + suffix).c_str());
    return file;
  }
}

// The file that becomes the copy. It is locked, so that no other backup writes it, and deleted unless it was kept.
class PartFile {
 public:
  explicit PartFile(const fs::path& to) : path_(to.string() + ".part"), handle_(open_part(path_)) {}
  ~PartFile() {
    if (path_.empty()) return;
    ::unlink(path_.c_str());
    for (const char* suffix : kSideFiles) ::unlink((path_.string() + suffix).c_str());
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
  fs::path path_;
  FileHandle handle_;  // closed last, which ends the lock
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
