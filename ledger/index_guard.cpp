// SPDX-License-Identifier: Apache-2.0
#include "ledger/index_guard.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/file.h"

namespace slip {
namespace {

// Everything below runs in a signal handler: no allocation, no lock, no exception.

constexpr std::size_t kPathBytes = PATH_MAX + 16;  // " (deleted)" too
constexpr int kMostDescriptors = 1 << 16;

std::atomic<std::uint64_t> cuts{0};
struct sigaction action_before {};

// Lines of a file. Longer ones than the buffer are cut.
class LineReader {
 public:
  explicit LineReader(const char* path) : file_(::open(path, O_RDONLY | O_CLOEXEC)) {}

  std::optional<std::string_view> next() noexcept {
    while (true) {
      const std::string_view kept(buffer_.data() + begin_, end_ - begin_);
      const std::size_t newline = kept.find('\n');
      if (newline != std::string_view::npos) {
        begin_ += newline + 1;
        return kept.substr(0, newline);
      }
      if (!read_more()) return std::nullopt;
    }
  }

 private:
  bool read_more() noexcept {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ == buffer_.size()) end_ = 0;
    const ssize_t n = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
    if (n <= 0) return false;
    end_ += static_cast<std::size_t>(n);
    return true;
  }

  FileHandle file_;
  std::array<char, 2 * kPathBytes> buffer_{};
  std::size_t begin_ = 0, end_ = 0;
};

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  std::string_view path;
};

// A line of /proc/self/maps: "7f00-7f08 rw-s 00000000 fd:01 1234      /path".
std::optional<Mapping> parse_mapping(std::string_view line) noexcept {
  const auto number = [&line](std::uint64_t& value, char after) {
    const auto read = std::from_chars(line.data(), line.data() + line.size(), value, 16);
    if (read.ec != std::errc() || read.ptr == line.data() + line.size() || *read.ptr != after) return false;
    line.remove_prefix(static_cast<std::size_t>(read.ptr + 1 - line.data()));
    return true;
  };
  Mapping mapping;
  if (!number(mapping.begin, '-') || !number(mapping.end, ' ')) return std::nullopt;
  line.remove_prefix(std::min(line.size(), std::string_view("rw-s ").size()));
  if (!number(mapping.offset, ' ')) return std::nullopt;
  const std::size_t path = line.find('/');
  if (path == std::string_view::npos) return std::nullopt;
  mapping.path = line.substr(path);
  return mapping;
}

bool is_index(std::string_view path) noexcept {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.ends_with("-shm");
}

struct Path {
  std::array<char, kPathBytes> bytes{};
  std::size_t size = 0;
  std::string_view text() const noexcept { return {bytes.data(), size}; }
};

// The path of the index that is mapped at `address`.
bool find_index(std::uint64_t address, Path& path) noexcept {
  LineReader maps("/proc/self/maps");
  while (const auto line = maps.next()) {
    const auto mapping = parse_mapping(*line);
    if (!mapping || address < mapping->begin || address >= mapping->end) continue;
    if (!is_index(mapping->path) || mapping->path.size() > path.bytes.size()) return false;
    path.size = mapping->path.copy(path.bytes.data(), path.bytes.size());
    return true;
  }
  return false;
}

std::uint64_t mapped_bytes(std::string_view path) noexcept {
  std::uint64_t bytes = 0;
  LineReader maps("/proc/self/maps");
  while (const auto line = maps.next()) {
    const auto mapping = parse_mapping(*line);
    if (mapping && mapping->path == path) bytes = std::max(bytes, mapping->offset + mapping->end - mapping->begin);
  }
  return bytes;
}

// SQLite's descriptor of the file, since the path may be another file's by now; −1 if there is none. A device number
// would not do: overlay file systems show another one in the maps.
int descriptor_of(std::string_view path) noexcept {
  constexpr std::string_view kFolder = "/proc/self/fd/";
  std::array<char, 32> link{};
  kFolder.copy(link.data(), kFolder.size());
  Path target;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    *std::to_chars(link.data() + kFolder.size(), link.data() + link.size() - 1, fd).ptr = '\0';
    const ssize_t n = ::readlink(link.data(), target.bytes.data(), target.bytes.size());
    target.size = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    if (target.text() == path) return fd;
  }
  return -1;
}

// Writes a byte of each page: on a full disk the next access to a hole would raise the signal again.
bool fill_with_zeros(int fd, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kPageBytes = 4096;
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return false;
  for (std::uint64_t page = 0; page < bytes; page += kPageBytes) {
    if (::pwrite(fd, "", 1, static_cast<off_t>(page)) != 1) return false;
  }
  return true;
}

bool mend(const void* address) noexcept {
  Path path;
  if (!find_index(reinterpret_cast<std::uint64_t>(address), path)) return false;
  const int fd = descriptor_of(path.text());
  if (fd < 0 || !fill_with_zeros(fd, mapped_bytes(path.text()))) return false;
  ++cuts;
  return true;
}

void on_bus_error(int number, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  // Without a mend, the access runs again and does what it did before this handler was there.
  if (info->si_code != BUS_ADRERR || !mend(info->si_addr)) ::sigaction(number, &action_before, nullptr);
  errno = error;
}

}  // namespace

void survive_cut_indexes() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &action, &action_before) == 0;
  }();
  static_cast<void>(installed);
}

std::uint64_t index_cuts() noexcept {
  return cuts;
}

}  // namespace slip
