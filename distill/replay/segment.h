// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/file.h"
#include "distill/replay/record_codec.h"

namespace slip {

// What a segment's bytes hold: a file header (magic, format version, number, CRC-32C), then frames.
struct SegmentScan {
  struct Frame {
    std::uint64_t offset = 0;
    FrameHeader header;
  };
  std::vector<Frame> frames;
  std::uint64_t good_bytes = 0;       // end of the last good frame
  std::uint64_t torn_bytes = 0;       // beyond good_bytes: one frame that was cut short, as a crash leaves it
  std::uint64_t damaged_bytes = 0;    // in no good frame, and not torn
  std::uint64_t damaged_gaps = 0;     // runs of such bytes
  std::uint64_t damaged_records = 0;  // frames that begin in them, or one a gap: at least so many were lost
  bool foreign = false;               // a whole header of a later format version: leave the file alone
  bool older = false;                 // … of an earlier one: read it, but add nothing that its readers do not know
  bool gave_up = false;               // so much damage that the search for further frames was ended
};

// Pure; the bytes may be anything. A damaged frame is skipped by looking for the next good one. `growing`: records were
// added to this segment last, so that a crash may have cut one short; in any other a torn end is damage. A segment
// without a whole header is damaged always.
SegmentScan scan_segment(std::span<const std::byte> file, bool growing = true);

constexpr std::size_t kSegmentHeaderBytes = 24;
std::vector<std::byte> encode_segment_header(std::uint64_t number);

// `segment-0000000042.replay` and back; nothing for other names.
// A file of a larger number is not loaded, and none is made: no service writes so many.
constexpr std::uint64_t kMaxSegmentNumber = (std::uint64_t{1} << 62) - 1;
std::filesystem::path segment_path(const std::filesystem::path& folder, std::uint64_t number);
std::optional<std::uint64_t> segment_number(std::string_view file_name);

// The file verbs. All throw Error{kIo}; none follows a symlink.
// 0600. The file appears under its name with a durable header, so that no crash leaves an empty segment; a failure
// leaves no file. Error{kIo} where a file of that name is.
FileHandle create_segment(const std::filesystem::path& folder, std::uint64_t number);
FileHandle open_for_append(const std::filesystem::path& path);
// Exactly `bytes` at `offset`; fewer when the file is shorter.
std::vector<std::byte> read_at(const std::filesystem::path& path, std::uint64_t offset, std::size_t bytes);
void cut_segment(const std::filesystem::path& path, std::uint64_t bytes);
// Puts a segment of `content` in the old one's place: temporary file → fsync → rename → fsync(directory).
void replace_segment(const std::filesystem::path& folder, std::uint64_t number, std::span<const std::byte> content);
void remove_segment(const std::filesystem::path& folder, std::uint64_t number);

}  // namespace slip
