// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

namespace slip {

// Whether the disk is low. It becomes low below `least` bytes and stays low until a tenth more is free (hysteresis).
// Pure.
bool is_disk_low(std::uint64_t free_bytes, std::uint64_t least, bool was_low);

// Decides whether deferrable writes may go on: ledger rows, replay records, new drafts. Serving writes nothing and
// never pauses. Threads: any.
class DiskSpace {
 public:
  using ReadFree = std::function<std::optional<std::uint64_t>()>;  // nullopt: unknown
  using IsInPlace = std::function<bool()>;  // whether the folder is still the one that was opened
  // `least` bytes must stay free on the file system of `folder`; 0 never pauses. `read` replaces statvfs in tests.
  // Without `in_place` the folder is assumed to be in place.
  DiskSpace(std::filesystem::path folder, std::uint64_t least, ReadFree read = {}, IsInPlace in_place = {});

  // Each asks the file system at most once a second and logs every change. None blocks longer than statvfs and stat do,
  // or throws.
  bool low() noexcept;
  bool gone() noexcept;                 // the folder was deleted, moved or replaced
  bool pauses() noexcept;               // either
  void set_least(std::uint64_t least);  // takes effect at the next check

 private:
  void ask_when_due() noexcept;
  void ask_again() noexcept;
  void ask_space();
  void ask_place();

  const std::filesystem::path folder_;
  const ReadFree read_;
  const IsInPlace in_place_;
  std::atomic<std::uint64_t> least_;
  std::atomic<std::int64_t> next_us_{0};  // monotonic
  std::atomic<bool> low_{false}, gone_{false};
  std::mutex asking_;
};

}  // namespace slip
