// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/error.h"

namespace slip {

// Owns a file descriptor. Move-only.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int get() const { return fd_; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The identity of a file, independent of its name. The inode of an open file is not reused.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
std::optional<FileIdentity> identity_of(int fd) noexcept;
// The identity of the file at `path`, without following a final symbolic link; nullopt if there is none or it cannot be
// seen.
std::optional<FileIdentity> identity_at(const std::filesystem::path& path) noexcept;

// Durable file operations. Each passes the fail point `<point>.write`, `<point>.fsync` or `<point>.rename` right before
// acting. All throw Error{kIo} naming the path. New files get mode 0600, new directories 0700.
void write_all(int fd, std::span<const std::byte> bytes, std::string_view point);
void sync_file(int fd, std::string_view point);  // fsync
void sync_directory(const std::filesystem::path& directory, std::string_view point);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view point);
// temp file → write → fsync → rename → fsync(directory). A reader sees the old content or the new, never a part. A
// failure leaves no temp file.
void replace_file(const std::filesystem::path& path, std::string_view content, std::string_view point);
// Replaces `to` by a copy of `from`, as replace_file does. Names the path that failed, which
// std::filesystem::copy_file does not: on a full disk it blames `from`. The file may have any size; 1 MiB of it is in
// memory at a time. Fail points `copy.*`.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);
// Writes a result to a file that a user named. A regular file is replaced as by replace_file, keeping its mode and
// owner. If that is impossible, and for a link, a device or a FIFO, the content is written in place, as a shell's `>`
// does. Fail points `output.*`. Error{kIo} naming the path.
void write_output_file(const std::filesystem::path& path, std::string_view content);

// The last part of a folder's path, also for "models/x/" and ".". It names a model or a draft.
std::string folder_name(const std::filesystem::path& folder);

// Whether poll() reports `fd` as writable within `patience`. A full pipe is not until its reader reads.
bool writable_within(int fd, std::chrono::milliseconds patience);

// The whole file. Error{kTooLarge} over `max_bytes`, Error{kNotFound} when absent, Error{kInvalidArgument} unless it is
// a regular file, Error{kIo}.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);
// Checks a file that holds a secret. Error{kNotFound}, or Error{kPermission} when anyone but its owner can read or
// write it. `what` names the kind of file in the message, `param` the setting that named it.
void require_private_file(const std::filesystem::path& path, const std::string& what, const std::string& param);
// Turns a standard library error, such as a loop of symbolic links, into this file's kind of Error.
Error io_error(const std::filesystem::filesystem_error& fault);
// Creates a directory (0700), or accepts one that we own and that no other user can write; else Error{kPermission}.
void ensure_private_directory(const std::filesystem::path& path);
// The same check, without creating the directory.
void require_private_directory(const std::filesystem::path& path);

}  // namespace slip
