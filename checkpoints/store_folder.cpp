// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/store_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "common/error.h"
#include "common/fail_point.h"

namespace slip {
namespace {

constexpr int kMaxDepth = 16;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

void check_component(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, "a name inside the draft store is one plain path component");
  }
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    SLIP_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
  }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned n_bytes = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &n_bytes);
    std::string text;
    for (unsigned i = 0; i < n_bytes; ++i) {
      std::array<char, 3> two{};
      std::snprintf(two.data(), two.size(), "%02x", digest[i]);
      text += two.data();
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

void StoreFolder::refuse(const std::string& name, int error) const {
  const std::string path = (path_ / name).string();
  if (error == ENOENT) throw Error(ErrorCode::kNotFound, path + " does not exist");
  if (error == ELOOP || error == ENOTDIR) {
    throw Error(ErrorCode::kPermission, path + " is a symbolic link or not what it should be",
                "the draft store follows no links; remove it");
  }
  throw Error(error == ENOMEM ? ErrorCode::kUnavailable : ErrorCode::kIo, path + ": " + std::strerror(error));
}

StoreFolder StoreFolder::open_root(const std::filesystem::path& path) {
  ensure_private_directory(path);
  FileHandle handle(::open(path.c_str(), kDirectoryFlags));
  if (!handle) throw Error(ErrorCode::kIo, "cannot open " + path.string() + ": " + std::strerror(errno));
  return {std::move(handle), path};
}

StoreFolder StoreFolder::open_existing(const std::filesystem::path& path) {
  FileHandle handle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle) throw Error(ErrorCode::kIo, "cannot open " + path.string() + ": " + std::strerror(errno));
  return {std::move(handle), path};
}

StoreFolder StoreFolder::child(const std::string& name) const {
  check_component(name);
  FileHandle handle(::openat(handle_.get(), name.c_str(), kDirectoryFlags));
  if (!handle) refuse(name, errno);
  return {std::move(handle), path_ / name};
}

std::optional<StoreFolder> StoreFolder::child_if_there(const std::string& name) const {
  if (!contains(name)) return std::nullopt;
  return child(name);
}

StoreFolder StoreFolder::make_child(const std::string& name) const {
  check_component(name);
  if (::mkdirat(handle_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) refuse(name, errno);
  return child(name);
}

std::vector<std::string> StoreFolder::names() const {
  // A separate descriptor: two threads that list must not share a position.
  const int fd = ::openat(handle_.get(), ".", kDirectoryFlags);
  if (fd < 0) refuse(".", errno);
  const std::unique_ptr<DIR, DirectoryCloser> directory(::fdopendir(fd));
  if (!directory) {
    ::close(fd);
    refuse(".", ENOMEM);
  }
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool StoreFolder::contains(const std::string& name) const {
  check_component(name);
  struct stat status {};
  return ::fstatat(handle_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

FileHandle StoreFolder::open_file(const std::string& name) const {
  check_component(name);
  FileHandle file(::openat(handle_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) refuse(name, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse(name, errno);
  if (!S_ISREG(status.st_mode)) refuse(name, ENOTDIR);
  return file;
}

std::string StoreFolder::read(const std::string& name, std::uint64_t max_bytes) const {
  const FileHandle file = open_file(name);
  std::string content;
  std::array<char, 4096> chunk{};
  while (true) {
    const ssize_t n = ::read(file.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(name, errno);
    if (n == 0) return content;
    content.append(chunk.data(), static_cast<std::size_t>(n));
    if (content.size() > max_bytes) throw Error(ErrorCode::kTooLarge, (path_ / name).string() + " is too large");
  }
}

void StoreFolder::replace(const std::string& name, std::string_view content, std::string_view point) const {
  check_component(name);
  const std::string temporary = name + ".tmp";
  ::unlinkat(handle_.get(), temporary.c_str(), 0);
  {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const FileHandle file(::openat(handle_.get(), temporary.c_str(), flags, 0600));
    if (!file) refuse(temporary, errno);
    write_all(file.get(), std::as_bytes(std::span(content)), point);
    sync_file(file.get(), point);
  }
  rename_child(temporary, *this, name, point);
  sync(point);
}

void StoreFolder::rename_child(const std::string& name, const StoreFolder& to, const std::string& new_name,
                               std::string_view point) const {
  check_component(name);
  check_component(new_name);
  fail_point(std::string(point) + ".rename");
  if (::renameat(handle_.get(), name.c_str(), to.handle_.get(), new_name.c_str()) != 0) refuse(name, errno);
}

void StoreFolder::sync(std::string_view point) const {
  sync_file(handle_.get(), point);
}

void StoreFolder::sync_file_in(const std::string& name, std::string_view point) const {
  const FileHandle file = open_file(name);
  if (::fchmod(file.get(), 0600) != 0) refuse(name, errno);
  sync_file(file.get(), point);
}

void StoreFolder::remove(const std::string& name) const {
  remove_tree(name, /*depth=*/0);
}

void StoreFolder::remove_tree(const std::string& name, int depth) const {
  check_component(name);
  if (::unlinkat(handle_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR && errno != EPERM) refuse(name, errno);
  if (depth == kMaxDepth) throw Error(ErrorCode::kIo, (path_ / name).string() + " is nested too deeply");
  {
    const StoreFolder folder = child(name);
    for (const auto& inner : folder.names()) folder.remove_tree(inner, depth + 1);
  }
  if (::unlinkat(handle_.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) refuse(name, errno);
}

std::string sha256_of(int fd, const std::string& where) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw Error(ErrorCode::kIo, "cannot stat " + where + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kInvalidArgument, where + " is not a regular file");
  Sha256 hash;
  std::vector<char> chunk(std::size_t{1} << 20);
  off_t offset = 0;
  while (true) {
    const ssize_t n = ::pread(fd, chunk.data(), chunk.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(ErrorCode::kIo, "cannot read " + where + ": " + std::strerror(errno));
    if (n == 0) return hash.hex();
    hash.add({chunk.data(), static_cast<std::size_t>(n)});
    offset += n;
  }
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace slip
