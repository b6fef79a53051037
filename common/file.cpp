// SPDX-License-Identifier: Apache-2.0
#include "common/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/log.h"

namespace slip {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw Error(ErrorCode::kIo, what + ": " + std::strerror(errno));
}

// The path of an open file, from the kernel; `otherwise` if it has none, such as a pipe.
std::string path_of(int fd, std::string_view otherwise) {
  std::error_code none;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none);
  return path.is_absolute() ? path.string() : std::string(otherwise);
}

[[noreturn]] void throw_errno(const char* doing, int fd, std::string_view otherwise) {
  const int why = errno;
  const std::string path = path_of(fd, otherwise);
  errno = why;
  throw_errno(doing + path);
}

[[noreturn]] void throw_too_large(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t max_bytes) {
  throw Error(ErrorCode::kTooLarge, path.string() + " has " + std::to_string(bytes) + " bytes, at most " +
                                        std::to_string(max_bytes) + " are read");
}

FileHandle open_regular(const std::filesystem::path& path, std::uint64_t& n_bytes) {
  // O_NONBLOCK: opening a planted FIFO must not wait for a writer.
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                "cannot open " + path.string() + ": " + std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno("cannot stat " + path.string());
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kInvalidArgument, path.string() + " is not a regular file");
  n_bytes = static_cast<std::uint64_t>(status.st_size);
  return file;
}

// Bytes read; 0 at the end.
std::size_t read_some(int file, char* to, std::size_t most, const std::filesystem::path& path) {
  for (;;) {
    const ssize_t n = ::read(file, to, most);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR) throw_errno("cannot read " + path.string());
  }
}

void reach(std::string_view point, std::string_view verb) {
  fail_point(std::string(point) + "." + std::string(verb));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// A new file that is to replace another one. Deleted unless it was kept.
class TemporaryFile {
 public:
  // Holds no file if it could not be opened.
  TemporaryFile(FileHandle handle, std::filesystem::path path) : handle_(std::move(handle)), path_(std::move(path)) {}
  ~TemporaryFile() {
    if (handle_ && !path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  explicit operator bool() const { return static_cast<bool>(handle_); }
  int get() const { return handle_.get(); }
  void replace(const std::filesystem::path& path, std::string_view content, std::string_view point) {
    write_all(handle_.get(), std::as_bytes(std::span(content)), point);
    replace(path, point);
  }
  // By what was written into it.
  void replace(const std::filesystem::path& path, std::string_view point) {
    sync_file(handle_.get(), point);
    rename_path(path_, path, point);
    path_.clear();
    sync_directory(folder_of(path), point);
  }

 private:
  FileHandle handle_;
  std::filesystem::path path_;
};

TemporaryFile new_tmp_file(const std::filesystem::path& path) {
  auto name = path;
  name += ".tmp";
  FileHandle handle(::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!handle) throw_errno("cannot create " + name.string());
  return {std::move(handle), std::move(name)};
}

// Uses a random name, since the user may own a file called `path`.tmp.
TemporaryFile new_file_beside(const std::filesystem::path& path) {
  constexpr std::size_t kMostOfName = 240;  // a file system takes names of 255 bytes
  const std::string beginning = path.filename().string().substr(0, kMostOfName);
  std::string name = (folder_of(path) / ("." + beginning + ".XXXXXX")).string();
  FileHandle handle(::mkostemp(name.data(), O_CLOEXEC));  // 0600
  return {std::move(handle), std::move(name)};
}

bool take_mode_and_owner(int fd, const struct stat& from) {
  struct stat own {};
  if (::fstat(fd, &own) != 0) return false;
  const bool same_owner = own.st_uid == from.st_uid && own.st_gid == from.st_gid;
  if (!same_owner && ::fchown(fd, from.st_uid, from.st_gid) != 0) return false;
  return ::fchmod(fd, from.st_mode & 07777) == 0;  // after chown, which clears the set-user-id bit
}

// Opening a FIFO blocks until it has a reader, so this logs a warning after 2 s without one. The returned handle keeps
// the reader from seeing end of file.
FileHandle await_reader_or_say(const std::filesystem::path& path) {
  constexpr std::chrono::milliseconds kPatience{2000}, kAskAgain{50};
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return {};
  for (auto waited = kAskAgain; waited < kPatience; waited += kAskAgain) {
    FileHandle file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (file || errno != ENXIO) return file;
    std::this_thread::sleep_for(kAskAgain);
  }
  log_warn(path.string() + " is a FIFO without a reader; waiting for one");
  return {};
}

void write_into(const std::filesystem::path& path, std::string_view content) {
  const FileHandle held = await_reader_or_say(path);
  const FileHandle file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600));
  if (!file) throw_errno("open");
  write_all(file.get(), std::as_bytes(std::span(content)), "output");
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) sync_file(file.get(), "output");
}

void write_or_replace(const std::filesystem::path& path, std::string_view content) {
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) throw_errno("stat");
  const bool replaceable = !exists || (S_ISREG(status.st_mode) && status.st_nlink == 1);
  if (!replaceable) return write_into(path, content);
  TemporaryFile temporary = new_file_beside(path);
  if (!exists && !temporary) throw_errno("create");
  // The folder takes no new files, or the file belongs to another user: overwrite its content in place.
  if (exists && (!temporary || !take_mode_and_owner(temporary.get(), status))) return write_into(path, content);
  temporary.replace(path, content, "output");
}

}  // namespace

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<FileIdentity> identity_of(int fd) noexcept {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

std::optional<FileIdentity> identity_at(const std::filesystem::path& path) noexcept {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

void write_all(int fd, std::span<const std::byte> bytes, std::string_view point) {
  reach(point, "write");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("cannot write ", fd, point);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_file(int fd, std::string_view point) {
  reach(point, "fsync");
  if (::fsync(fd) != 0) throw_errno("cannot fsync ", fd, point);
}

void sync_directory(const std::filesystem::path& directory, std::string_view point) {
  FileHandle handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle) throw_errno("cannot open directory " + directory.string());
  sync_file(handle.get(), point);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view point) {
  reach(point, "rename");
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("cannot rename " + from.string() + " to " + to.string());
}

void replace_file(const std::filesystem::path& path, std::string_view content, std::string_view point) {
  TemporaryFile temporary = new_tmp_file(path);
  temporary.replace(path, content, point);
}

void write_output_file(const std::filesystem::path& path, std::string_view content) {
  try {
    write_or_replace(path, content);
  } catch (const Error& error) {
    const std::string what = "cannot write " + path.string() + ": ";
    throw Error(error.code(), error.message().starts_with(what) ? error.message() : what + error.message(),
                error.hint());
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  std::uint64_t n_bytes = 0;
  const FileHandle file = open_regular(path, n_bytes);
  if (n_bytes > max_bytes) throw_too_large(path, n_bytes, max_bytes);
  // Files generated on reading (/proc) report size 0, so read until no bytes come.
  constexpr std::size_t kBeyond = 4096;
  std::string content(static_cast<std::size_t>(n_bytes) + kBeyond, '\0');
  std::size_t done = 0;
  while (const std::size_t n = read_some(file.get(), content.data() + done, content.size() - done, path)) {
    done += n;
    if (done > max_bytes) throw_too_large(path, done, max_bytes);
    if (done == content.size()) content.resize(2 * done);
  }
  content.resize(done);
  return content;
}

std::string folder_name(const std::filesystem::path& folder) {
  const auto normal = std::filesystem::absolute(folder).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

bool writable_within(int fd, std::chrono::milliseconds patience) {
  pollfd state{fd, POLLOUT, 0};
  return ::poll(&state, 1, static_cast<int>(patience.count())) == 1;
}

void require_private_file(const std::filesystem::path& path, const std::string& what, const std::string& param) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw Error(ErrorCode::kNotFound, "no " + what + " " + path.string(), {}, param);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, "the " + what + " " + path.string() + " is not a regular file", {}, param);
  }
  if ((status.st_mode & 077) != 0) {
    throw Error(ErrorCode::kPermission, "the " + what + " " + path.string() + " can be read or written by others",
                "chmod 600 " + path.string(), param);
  }
}

void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  std::uint64_t n_bytes = 0;
  const FileHandle source = open_regular(from, n_bytes);
  TemporaryFile temporary = new_tmp_file(to);
  std::vector<char> part(kAtOnce);
  while (const std::size_t n = read_some(source.get(), part.data(), part.size(), from)) {
    write_all(temporary.get(), std::as_bytes(std::span(part).first(n)), "copy");
  }
  temporary.replace(to, "copy");
}

Error io_error(const std::filesystem::filesystem_error& fault) {
  return {ErrorCode::kIo, "cannot use " + fault.path1().string() + ": " + fault.code().message()};
}

void ensure_private_directory(const std::filesystem::path& path) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw_errno("cannot create " + path.string());
  require_private_directory(path);
}

void require_private_directory(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) throw_errno("cannot stat " + path.string());
  if (S_ISLNK(status.st_mode)) {
    throw Error(ErrorCode::kPermission, path.string() + " is a symbolic link", "name the directory it leads to");
  }
  if (!S_ISDIR(status.st_mode)) throw Error(ErrorCode::kPermission, path.string() + " is not a directory");
  if (status.st_uid != ::geteuid()) {
    throw Error(ErrorCode::kPermission, path.string() + " belongs to another user", "choose a directory of your own");
  }
  if ((status.st_mode & 022) != 0) {
    const bool is_shared = (status.st_mode & S_ISVTX) != 0;  // as /tmp: others need it as it is
    throw Error(ErrorCode::kPermission, path.string() + " can be written by others",
                is_shared ? "choose a new directory in it" : "chmod 700 " + path.string());
  }
}

}  // namespace slip
