// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common/file.h"

namespace slip {

// A flock on <data>/LOCK, held while this object lives, so that two processes never write one data directory. The
// kernel releases it however the process ends. Creates the directory (0700). Throws Error{kConflict} naming the
// holder's pid, Error{kPermission} for a directory that another user owns or can write, Error{kIo}.
class DataDirectoryLock {
 public:
  explicit DataDirectoryLock(const std::filesystem::path& data_directory);

  // False once the directory or its LOCK was deleted, moved or replaced; the path then leads to other files. Any
  // thread.
  bool in_place() const noexcept;

 private:
  std::filesystem::path path_;
  FileHandle file_;
};

}  // namespace slip
