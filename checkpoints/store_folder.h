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

// An open directory whose entries are reached by name below it and never through a symbolic link (openat with
// O_NOFOLLOW), so that a planted link or `..` cannot lead out. Every name is a single component, checked. The verbs
// that promise durability pass the fail points `<point>.{write,fsync,rename}`. Throws Error{kNotFound | kPermission |
// kIo} naming the path. Threads: any; it holds no state but the descriptor.
class StoreFolder {
 public:
  static StoreFolder open_root(const std::filesystem::path& path);  // created 0700, refused when others can write it

  static StoreFolder open_existing(const std::filesystem::path& path);  // to look at, whoever owns it; may be a link

  StoreFolder child(const std::string& name) const;
  std::optional<StoreFolder> child_if_there(const std::string& name) const;
  StoreFolder make_child(const std::string& name) const;  // 0700; accepts one that is there

  std::vector<std::string> names() const;  // sorted, without . and ..
  bool contains(const std::string& name) const;
  FileHandle open_file(const std::string& name) const;  // read-only; a regular file or Error{kPermission}
  std::string read(const std::string& name, std::uint64_t max_bytes) const;

  // Replaces `name` through `name`.tmp: a reader sees the old content or the new.
  void replace(const std::string& name, std::string_view content, std::string_view point) const;
  void rename_child(const std::string& name, const StoreFolder& to, const std::string& new_name,
                    std::string_view point) const;
  void sync(std::string_view point) const;
  void sync_file_in(const std::string& name, std::string_view point) const;  // and gives it mode 0600
  void remove(const std::string& name) const;                                // a file or a whole tree; absent is fine

  const std::filesystem::path& path() const { return path_; }

 private:
  StoreFolder(FileHandle handle, std::filesystem::path path) : handle_(std::move(handle)), path_(std::move(path)) {}
  [[noreturn]] void refuse(const std::string& name, int error) const;
  void remove_tree(const std::string& name, int depth) const;

  FileHandle handle_;
  std::filesystem::path path_;  // for messages and for callers that load what is inside
};

// Hex digits of the SHA-256 of what `fd` holds from its start. Error{kInvalidArgument} when it is no regular file: a
// device may have no end.
std::string sha256_of(int fd, const std::string& where);
std::string sha256_of(std::string_view bytes);  // of these

}  // namespace slip
