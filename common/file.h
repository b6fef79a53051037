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

// Which file it is, whatever its name. The number of a file that is open is not given to another one.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
std::optional<FileIdentity> identity_of(int fd) noexcept;
// Of the link itself where `path` is a symbolic one; nothing where no file is, or none can be seen.
std::optional<FileIdentity> identity_at(const std::filesystem::path& path) noexcept;

// The durable-file verbs; each passes the fail points `<point>.write`, `<point>.fsync`, `<point>.rename` right before
// acting. All throw Error{kIo} naming the path. New files get mode 0600, new directories 0700.
void write_all(int fd, std::span<const std::byte> bytes, std::string_view point);
void sync_file(int fd, std::string_view point);  // fsync
void sync_directory(const std::filesystem::path& directory, std::string_view point);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view point);
// temp file → write → fsync → rename → fsync(directory): a reader sees the old content or the new, never a part. A
// failure leaves no temp file.
void replace_file(const std::filesystem::path& path, std::string_view content, std::string_view point);
// Writes a result to the file a user named. A regular file is replaced as by replace_file, but keeps its mode and
// owner; where that cannot be, and for a link, a device or a FIFO, the content is written into what is there, as a
// shell's `>` does. Fail points `output.*`. Error{kIo} naming the path.
void write_output_file(const std::filesystem::path& path, std::string_view content);

// Whether `fd` takes a few kilobytes at once, or does within `patience`: a full pipe does not until its reader reads.
bool writable_within(int fd, std::chrono::milliseconds patience);

// The whole file, refused with Error{kTooLarge} over `max_bytes` and Error{kNotFound} when absent.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);
// A file that holds a secret: Error{kNotFound}, or Error{kPermission} when anybody but its owner can read or write it.
// `what` names the file's kind in the message, `param` the setting it came from.
void require_private_file(const std::filesystem::path& path, const std::string& what, const std::string& param);
// What the standard library says of a path, such as a loop of symbolic links, as this file's own verbs say it.
Error io_error(const std::filesystem::filesystem_error& fault);
// Creates (0700) or accepts a directory that belongs to us and that nobody else can write; else Error{kPermission}.
void ensure_private_directory(const std::filesystem::path& path);
// The same of a directory that is there, without creating it.
void require_private_directory(const std::filesystem::path& path);

}  // namespace slip
