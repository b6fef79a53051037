// SPDX-License-Identifier: Apache-2.0
// A replay segment. A CRC keeps random changes out of what comes after it, so every input is tried three times: as it
// is, as one frame whose CRC is made right, and as a list of changes to a good frame.
#include "distill/replay/segment.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/crc32c.h"
#include "tests/fuzz/fuzz.h"

namespace slip {
namespace {

constexpr std::size_t kCrcOffset = 4, kCrcBegin = 8, kPayloadSizeOffset = 8, kFormatOffset = 12;

void check_record(std::span<const std::byte> frame) {
  const auto record = decode_record(frame);
  if (!record) return;
  const auto header = parse_frame(frame);
  SLIP_CHECK(header && header->frame_bytes <= frame.size(), "a record has a frame");
  const auto written = encode_record(*record, header->ordinal);
  SLIP_CHECK(decode_record(written).has_value(), "what was read can be written and read again");
}

void check_segment(std::span<const std::byte> bytes) {
  const SegmentScan scan = scan_segment(bytes);
  SLIP_CHECK(scan.good_bytes <= bytes.size() && scan.torn_bytes <= bytes.size() - scan.good_bytes &&
                 scan.damaged_bytes <= bytes.size() - scan.torn_bytes,
             "a scan stays in the file");
  std::uint64_t end = 0;
  for (const auto& frame : scan.frames) {
    SLIP_CHECK(frame.offset >= end, "frames follow one another");
    end = frame.offset + frame.header.frame_bytes;
    SLIP_CHECK(end <= scan.good_bytes, "a frame ends before the good bytes do");
    check_record(bytes.subspan(frame.offset, frame.header.frame_bytes));
  }
}

template <class Number>
void put(std::vector<std::byte>& bytes, std::size_t offset, Number number) {
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

std::vector<std::byte> with_true_header(std::span<const std::byte> input) {
  std::vector<std::byte> frame(std::max(input.size(), FrameHeader::kBytes));
  std::copy(input.begin(), input.end(), frame.begin());
  put(frame, 0, FrameHeader::kMagic);
  put(frame, kPayloadSizeOffset, static_cast<std::uint32_t>(frame.size() - FrameHeader::kBytes));
  put(frame, kFormatOffset, FrameHeader::kFormat);
  put(frame, kCrcOffset, crc32c(std::span(frame).subspan(kCrcBegin)));
  return frame;
}

ReplayRecord good_record() {
  ReplayRecord record;
  record.topic = "sql";
  record.tokens = {5, 6, 7, 8};
  record.prompt_tokens = 2;
  record.target = {{{7, 9}, {-0.1F, -3.0F}, -4.0F}, {{8}, {0.0F}, -20.0F}};
  record.draft = "sql";
  record.draft_version = 3;
  return record;
}

// Each three bytes of the input: where, and what then stands there.
std::vector<std::byte> changed(std::vector<std::byte> frame, std::span<const std::byte> changes) {
  for (std::size_t i = 0; i + 2 < changes.size(); i += 3) {
    const std::size_t offset =
        std::to_integer<std::size_t>(changes[i]) * 256 + std::to_integer<std::size_t>(changes[i + 1]);
    frame[offset % frame.size()] = changes[i + 2];
  }
  return with_true_header(frame);
}

void check_frame(const std::vector<std::byte>& frame) {
  check_record(frame);
  auto segment = encode_segment_header(1);
  segment.insert(segment.end(), frame.begin(), frame.end());
  check_segment(segment);
}

}  // namespace
}  // namespace slip

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  slip::check_segment(bytes);
  slip::check_frame(slip::with_true_header(bytes));
  slip::check_frame(slip::changed(slip::encode_record(slip::good_record(), 1), bytes));
  return 0;
}
