// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common/file.h"

namespace slip {

// <data>/LOCK held by flock for the life of the object, so that two processes never write one data directory; the
// kernel lets go however the process ends. Creates the directory (0700). Throws Error{kConflict} naming the holder's
// pid, Error{kPermission} for a directory of another user or writable by others.
class DataDirectoryLock {
 public:
  explicit DataDirectoryLock(const std::filesystem::path& data_directory);

  // False once the directory or its LOCK was deleted, moved or replaced: what is written there is not ours any more.
  // Any thread.
  bool in_place() const noexcept;

 private:
  std::filesystem::path path_;
  FileHandle file_;
};

}  // namespace slip
