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

// The content of a segment: a file header (magic, format version, number, CRC-32C), then frames.
struct SegmentScan {
  struct Frame {
    std::uint64_t offset = 0;
    FrameHeader header;
  };
  std::vector<Frame> frames;
  std::uint64_t good_bytes = 0;       // end of the last good frame
  std::uint64_t torn_bytes = 0;       // beyond good_bytes: one incomplete frame, as a crash leaves it
  std::uint64_t damaged_bytes = 0;    // bytes in no good frame, and not torn
  std::uint64_t damaged_gaps = 0;     // runs of damaged bytes
  std::uint64_t damaged_records = 0;  // lower bound of lost records: frames that begin in the gaps, or one per gap
  bool foreign = false;               // intact header of a later format version: the file must be left alone
  bool older = false;                 // … of an earlier one: read it, but append nothing that its readers do not know
  bool gave_up = false;               // the search for further frames was stopped because of too much damage
};

// Scans a segment; the bytes are untrusted. A damaged frame is skipped by searching for the next good one. `growing`:
// this segment was the last to be appended to, so a crash may have left an incomplete record. In any other segment a
// torn end is damage. A segment without a whole header is always damaged. Pure.
SegmentScan scan_segment(std::span<const std::byte> file, bool growing = true);

constexpr std::size_t kSegmentHeaderBytes = 24;
std::vector<std::byte> encode_segment_header(std::uint64_t number);

// File names: `segment-0000000042.replay` from a number, and back; empty for other names. Files with a larger number
// are neither loaded nor created: no service writes so many.
constexpr std::uint64_t kMaxSegmentNumber = (std::uint64_t{1} << 62) - 1;
std::filesystem::path segment_path(const std::filesystem::path& folder, std::uint64_t number);
std::optional<std::uint64_t> segment_number(std::string_view file_name);

// File operations. All throw Error{kIo}; none follows a symlink.

// Creates a segment with mode 0600. The file appears under its name with a durable header, so that no crash leaves an
// empty segment. A failure leaves no file. Error{kIo} if a file of that name exists.
FileHandle create_segment(const std::filesystem::path& folder, std::uint64_t number);
FileHandle open_for_append(const std::filesystem::path& path);
// Reads `bytes` bytes at `offset`; fewer when the file is shorter.
std::vector<std::byte> read_at(const std::filesystem::path& path, std::uint64_t offset, std::size_t bytes);
void cut_segment(const std::filesystem::path& path, std::uint64_t bytes);
// Replaces a segment by `content`: temporary file → fsync → rename → fsync(directory).
void replace_segment(const std::filesystem::path& folder, std::uint64_t number, std::span<const std::byte> content);
void remove_segment(const std::filesystem::path& folder, std::uint64_t number);

}  // namespace slip
