// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/data_directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

std::string holder_of(int fd) {
  std::array<char, 16> digits{};
  const ssize_t n = ::pread(fd, digits.data(), digits.size(), 0);
  std::string pid(digits.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  pid.erase(std::min(pid.find_first_not_of("0123456789"), pid.size()));
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

DataDirectoryLock::DataDirectoryLock(const std::filesystem::path& data_directory) {
  ensure_private_directory(data_directory);
  const auto path = data_directory / "LOCK";
  FileHandle file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file) {
    const bool may_not_write = errno == EROFS || errno == EACCES || errno == EPERM;
    throw Error(ErrorCode::kIo, "cannot open " + path.string() + ": " + std::strerror(errno),
                may_not_write ? "make the directory writable for this user, or choose another --data-dir"
                              : "if no service uses the directory, remove what is at that path");
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw Error(ErrorCode::kIo, "cannot lock " + path.string() + ": " + std::strerror(errno));
    throw Error(ErrorCode::kConflict, data_directory.string() + " is in use by " + holder_of(file.get()),
                "stop that process, or choose another --data-dir");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) != 0) {
    throw Error(ErrorCode::kIo, "cannot write " + path.string() + ": " + std::strerror(errno),
                "it should be a regular file; if no service uses the directory, remove it");
  }
  write_all(file.get(), std::as_bytes(std::span(pid)), "lock");
  path_ = path;
  file_ = std::move(file);
}

bool DataDirectoryLock::in_place() const noexcept {
  const auto ours = identity_of(file_.get());
  return ours && identity_at(path_) == ours;
}

}  // namespace slip
