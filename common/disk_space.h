// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

namespace slip {

// Whether the disk is low now: below `least` it is, and once it was it stays so until a tenth more is free, so that it
// does not go back and forth. Pure.
bool is_disk_low(std::uint64_t free_bytes, std::uint64_t least, bool was_low);

// Whether there is room for what can wait: ledger rows, replay records, new drafts. Serving writes nothing, so it goes
// on while those pause. Threads: any.
class DiskSpace {
 public:
  using ReadFree = std::function<std::optional<std::uint64_t>()>;  // nothing: it cannot be known
  // `least` bytes must stay free on the file system of `folder`; 0 never pauses. `read` replaces statvfs in tests.
  DiskSpace(std::filesystem::path folder, std::uint64_t least, ReadFree read = {});

  // Asks the file system once a second at most and says every change in the log. Never waits for a disk longer than
  // statvfs does; never throws.
  bool low() noexcept;
  void set_least(std::uint64_t least);  // takes effect at the next low()

 private:
  void ask_again() noexcept;

  const std::filesystem::path folder_;
  const ReadFree read_;
  std::atomic<std::uint64_t> least_;
  std::atomic<std::int64_t> next_us_{0};  // monotonic
  std::atomic<bool> low_{false};
  std::mutex asking_;
};

}  // namespace slip
