// SPDX-License-Identifier: Apache-2.0
#include "common/disk_space.h"

#include <sys/statvfs.h>

#include <exception>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace slip {
namespace {

constexpr std::int64_t kAskEveryUs = 1'000'000;

DiskSpace::ReadFree statvfs_of(const std::filesystem::path& folder) {
  return [folder]() -> std::optional<std::uint64_t> {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0) return std::nullopt;
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  };
}

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

bool is_disk_low(std::uint64_t free_bytes, std::uint64_t least, bool was_low) {
  return free_bytes < (was_low ? least + least / 10 : least);
}

DiskSpace::DiskSpace(std::filesystem::path folder, std::uint64_t least, ReadFree read, IsInPlace in_place)
    : folder_(std::move(folder)),
      read_(read ? std::move(read) : statvfs_of(folder_)),
      in_place_(std::move(in_place)),
      least_(least) {}

bool DiskSpace::low() noexcept {
  ask_when_due();
  return low_.load(std::memory_order_relaxed);
}

bool DiskSpace::gone() noexcept {
  ask_when_due();
  return gone_.load(std::memory_order_relaxed);
}

bool DiskSpace::pauses() noexcept {
  return low() || gone();
}

void DiskSpace::set_least(std::uint64_t least) {
  least_ = least;
  next_us_ = 0;
}

void DiskSpace::ask_when_due() noexcept {
  if (monotonic_us() >= next_us_.load(std::memory_order_relaxed)) ask_again();
}

// If another thread is asking already, the caller uses the last known answer.
void DiskSpace::ask_again() noexcept {
  const std::unique_lock asking(asking_, std::try_to_lock);
  if (!asking.owns_lock()) return;
  next_us_ = monotonic_us() + kAskEveryUs;
  try {
    ask_place();
    ask_space();
  } catch (const std::exception&) {
    // Out of memory: not logged; retried after a second.
  }
}

void DiskSpace::ask_place() {
  const bool now = in_place_ && !in_place_();
  if (gone_.exchange(now) == now) return;
  if (now) {
    log_error("data: " + folder_.string() +
              " or its file LOCK was deleted, moved or replaced; serving goes on, learning and the ledger pause until "
              "it is back, or "
              "until a restart begins a new one");
  } else {
    log_info("data: " + folder_.string() + " is back; learning and the ledger go on");
  }
}

void DiskSpace::ask_space() {
  const std::uint64_t least = least_;
  const auto free_bytes = read_();
  if (!free_bytes) return;  // an unknown value changes nothing
  const bool before = low_, now = is_disk_low(*free_bytes, least, before);
  if (now == before) return;
  low_ = now;
  const std::string figures = mebibytes(*free_bytes) + " are free in " + folder_.string();
  if (now) {
    log_error("disk: only " + figures + ", data.min_free_bytes is " + mebibytes(least) +
              "; serving goes on, learning and the ledger pause until there is room");
  } else {
    log_info("disk: " + figures + "; learning and the ledger go on");
  }
}

}  // namespace slip
