// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/file.h"

namespace slip {

// An open directory. Entries are reached by name below it, never through a symbolic link (openat with O_NOFOLLOW), so a
// planted link or `..` cannot leave it. Every name is checked to be a single component. Durable operations pass the
// fail points `<point>.{write,fsync,rename}`. Throws Error{kNotFound | kPermission | kIo} naming the path. Threads:
// any; the only state is the descriptor.
class StoreFolder {
 public:
  // Creates it (0700); refuses one that others can write
  static StoreFolder open_root(const std::filesystem::path& path);

  // For reading only: any owner, may be a link
  static StoreFolder open_existing(const std::filesystem::path& path);

  StoreFolder child(const std::string& name) const;
  std::optional<StoreFolder> child_if_there(const std::string& name) const;
  StoreFolder make_child(const std::string& name) const;  // creates it (0700) or opens an existing one

  std::vector<std::string> names() const;  // sorted, without . and ..
  bool contains(const std::string& name) const;
  FileHandle open_file(const std::string& name) const;  // read-only; Error{kPermission} unless it is a regular file
  std::string read(const std::string& name, std::uint64_t max_bytes) const;

  // Replaces `name` atomically through `name`.tmp: a reader sees the old content or the new.
  void replace(const std::string& name, std::string_view content, std::string_view point) const;
  void rename_child(const std::string& name, const StoreFolder& to, const std::string& new_name,
                    std::string_view point) const;
  void sync(std::string_view point) const;
  void sync_file_in(const std::string& name, std::string_view point) const;  // also sets mode 0600
  void remove(const std::string& name) const;                                // a file or a whole tree; may be absent

  const std::filesystem::path& path() const { return path_; }

 private:
  StoreFolder(FileHandle handle, std::filesystem::path path) : handle_(std::move(handle)), path_(std::move(path)) {}
  [[noreturn]] void refuse(const std::string& name, int error) const;
  void remove_tree(const std::string& name, int depth) const;

  FileHandle handle_;
  std::filesystem::path path_;  // for messages, and for callers that load its files
};

// SHA-256 of the file `fd` from its start, in hex. Error{kInvalidArgument} unless it is a regular file: a device may
// have no end.
std::string sha256_of(int fd, const std::string& where);
std::string sha256_of(std::string_view bytes);  // of these bytes

}  // namespace slip
