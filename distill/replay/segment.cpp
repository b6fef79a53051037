// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "common/byte_codec.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/fail_point.h"

namespace slip {

namespace {

constexpr std::uint64_t kSegmentMagic = 0x594C504552504C53;     // "SLPREPLY"
constexpr std::uint32_t kOldestFormat = 1, kSegmentFormat = 4;  // holds frames of that format or an older one
constexpr std::string_view kPrefix = "segment-";
constexpr std::string_view kSuffix = ".replay";
constexpr int kNumberDigits = 10;
// Limits the CRCs computed in a search: every magic costs one over the claimed length, and a file full of magics must
// not take minutes.
constexpr int kMaxSearchSteps = 64;

[[noreturn]] void throw_errno(const std::string& verb, const std::filesystem::path& path) {
  throw Error(ErrorCode::kIo, "cannot " + verb + " " + path.string() + ": " + std::strerror(errno));
}

// Does not wait for the other end of a FIFO that someone put there.
FileHandle open_file(const std::filesystem::path& path, int flags) {
  FileHandle file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) throw_errno("open", path);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kIo, path.string() + " is not a regular file");
  return file;
}

// Runs `write`; removes the file at `path` if it fails, also for lack of memory.
template <class Write>
void or_remove(const std::filesystem::path& path, Write write) {
  try {
    write();
  } catch (const std::exception&) {
    ::unlink(path.c_str());
    throw;
  }
}

// Writes a segment of `content` to `path`: temporary file → fsync → rename.
FileHandle put_segment(const std::filesystem::path& path, std::span<const std::byte> content, std::string_view point) {
  auto temporary = path;
  temporary += ".tmp";
  FileHandle file = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  or_remove(temporary, [&] {  // a leftover could fill the disk
    write_all(file.get(), content, point);
    sync_file(file.get(), point);
    rename_path(temporary, path, point);
  });
  return file;
}

enum class HeaderKind { kOurs, kOlder, kForeign, kDamaged };

HeaderKind check_header(std::span<const std::byte> file) {
  if (file.size() < kSegmentHeaderBytes) return HeaderKind::kDamaged;
  ByteReader in(file.first(kSegmentHeaderBytes));
  const auto magic = in.number<std::uint64_t>();
  const auto format = in.number<std::uint32_t>();
  in.number<std::uint64_t>();  // segment number, ignored: the file name decides
  const auto crc = in.number<std::uint32_t>();
  if (magic != kSegmentMagic || crc != crc32c(file.first(kSegmentHeaderBytes - sizeof(crc)))) {
    return HeaderKind::kDamaged;
  }
  if (format == kSegmentFormat) return HeaderKind::kOurs;
  return format >= kOldestFormat && format < kSegmentFormat ? HeaderKind::kOlder : HeaderKind::kForeign;
}

// The offset of the next frame magic at or after `from`; file.size() when there is none.
std::size_t find_magic(std::span<const std::byte> file, std::size_t from) {
  ByteWriter magic;
  magic.number(FrameHeader::kMagic);
  const auto found = std::search(file.begin() + static_cast<std::ptrdiff_t>(from), file.end(), magic.bytes().begin(),
                                 magic.bytes().end());
  return static_cast<std::size_t>(found - file.begin());
}

// Counts the bytes from `begin` to `end` as damage: no good frame covers them. A damaged file header alone counts as no
// record.
void add_damage(std::span<const std::byte> file, std::size_t begin, std::size_t end, SegmentScan& scan) {
  const auto gap = file.subspan(begin, end - begin);
  std::uint64_t n_begun = 0;
  for (std::size_t at = find_magic(gap, 0); at < gap.size(); at = find_magic(gap, at + 1)) ++n_begun;
  const std::uint64_t least = end > kSegmentHeaderBytes ? 1 : 0;
  scan.damaged_bytes += gap.size();
  scan.damaged_records += std::max(n_begun, least);
  ++scan.damaged_gaps;
}

// Counts the bytes beyond the last good frame, as torn or as damage.
void add_end(std::span<const std::byte> file, bool growing, SegmentScan& scan) {
  const auto rest = file.subspan(scan.good_bytes);
  if (file.empty()) {  // damage, since every segment is created with its header
    ++scan.damaged_gaps;
    ++scan.damaged_records;
  }
  if (rest.empty()) return;
  if (growing && !scan.gave_up && is_unfinished_frame(rest)) {
    scan.torn_bytes = rest.size();
  } else {
    add_damage(file, scan.good_bytes, file.size(), scan);
  }
}

}  // namespace

SegmentScan scan_segment(std::span<const std::byte> file, bool growing) {
  SegmentScan scan;
  const HeaderKind kind = check_header(file);
  scan.foreign = kind == HeaderKind::kForeign;
  if (scan.foreign) return scan;
  scan.older = kind == HeaderKind::kOlder;
  std::size_t at = kind == HeaderKind::kDamaged ? 0 : kSegmentHeaderBytes;
  scan.good_bytes = at;
  int searched = 0;
  while (at < file.size()) {
    auto header = parse_frame(file.subspan(at));
    if (!header) {
      scan.gave_up = ++searched > kMaxSearchSteps;
      if (scan.gave_up) break;
      at = find_magic(file, at + 1);
      continue;
    }
    if (at > scan.good_bytes) add_damage(file, scan.good_bytes, at, scan);
    const std::size_t bytes = header->frame_bytes;
    scan.frames.push_back({at, std::move(*header)});
    at += bytes;
    scan.good_bytes = at;
  }
  add_end(file, growing, scan);
  return scan;
}

std::vector<std::byte> encode_segment_header(std::uint64_t number) {
  ByteWriter out;
  out.number(kSegmentMagic);
  out.number(kSegmentFormat);
  out.number(number);
  out.number(crc32c(out.bytes()));
  return std::move(out.bytes());
}

std::filesystem::path segment_path(const std::filesystem::path& folder, std::uint64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, static_cast<std::size_t>(std::max(0, kNumberDigits - static_cast<int>(digits.size()))), '0');
  return folder / (std::string(kPrefix) + digits + std::string(kSuffix));
}

std::optional<std::uint64_t> segment_number(std::string_view file_name) {
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return std::nullopt;
  const auto digits = file_name.substr(kPrefix.size(), file_name.size() - kPrefix.size() - kSuffix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  // Accepts only the canonical name, so that no two files have the same number.
  if (!whole || number == 0 || segment_path({}, number).string() != file_name) return std::nullopt;
  return number;
}

FileHandle create_segment(const std::filesystem::path& folder, std::uint64_t number) {
  constexpr std::string_view kPoint = "replay.segment";
  const auto path = segment_path(folder, number);
  if (identity_at(path)) throw Error(ErrorCode::kIo, path.string() + " is there already");
  FileHandle file = put_segment(path, encode_segment_header(number), kPoint);
  or_remove(path, [&] { sync_directory(folder, kPoint); });  // so that the next attempt can use the number
  return file;
}

FileHandle open_for_append(const std::filesystem::path& path) {
  return open_file(path, O_WRONLY | O_APPEND);
}

std::vector<std::byte> read_at(const std::filesystem::path& path, std::uint64_t offset, std::size_t bytes) {
  const FileHandle file = open_file(path, O_RDONLY);
  std::vector<std::byte> content(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(file.get(), content.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("read", path);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

void cut_segment(const std::filesystem::path& path, std::uint64_t bytes) {
  const FileHandle file = open_file(path, O_WRONLY);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw_errno("cut", path);
  sync_file(file.get(), "replay.cut");
}

void replace_segment(const std::filesystem::path& folder, std::uint64_t number, std::span<const std::byte> content) {
  constexpr std::string_view kPoint = "replay.compact";
  put_segment(segment_path(folder, number), content, kPoint);
  sync_directory(folder, kPoint);
}

void remove_segment(const std::filesystem::path& folder, std::uint64_t number) {
  const auto path = segment_path(folder, number);
  fail_point("replay.compact.remove");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("remove", path);
  sync_directory(folder, "replay.compact");
}

}  // namespace slip
