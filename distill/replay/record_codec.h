// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/purge_scope.h"
#include "distill/replay/replay_record.h"

namespace slip {

// The header of a frame. A replay segment is a sequence of frames; a frame is a record or a tombstone, little-endian:
//
//   magic u32 | crc32c u32 over all that follows | payload bytes u32 | format u16 | flags u16
//   sequence u64 | ordinal u64 | request u64 | tenant u64 | group u64 | created i64 | expires i64
//   payload: topic (u8 length, bytes), name u64, then the record; a tombstone has an empty topic and no record
//
// A tombstone of a purge by time stores the time limit in `expires`.
//
// Format 4 is written; 1 to 3 are still read. They have no name. Formats 1 and 2 also hold rows off the accepted path,
// which are skipped. Format 1 has neither min_p nor choice. What is missing is read as 0.
//
// A distribution takes 6 bytes per entry: id as u32, −log p as u16 in steps of 1/2048 nat, so the rounding error is at
// most 0.00024 nat. Values of 32 nats and more are stored as the last step. Bytes read back are untrusted until the CRC
// and every bound is checked.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x43455253;  // "SREC"
  static constexpr std::uint16_t kOldestFormat = 1, kFormat = 4;
  static constexpr std::uint16_t kTombstone = 1;        // flag: the frame removes every earlier record of its scope
  static constexpr std::uint16_t kProcessedLogits = 2;  // ReplayRecord::processed_logits
  static constexpr std::uint16_t kOfTenant = 4;         // the tombstone's scope is limited to its tenant
  static constexpr std::uint16_t kOfTime = 8;           // … and to records finished before `expires`
  static constexpr std::uint16_t kOfName = 16;          // … and to calls of its name
  static constexpr std::uint16_t kSampled = 32;         // ReplayRecord::sampled
  static constexpr std::size_t kBytes = 72;
  static constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;  // exclusive limit of sequence and ordinal
  static constexpr std::size_t kMaxPayloadBytes = std::size_t{64} << 20;

  std::uint16_t format = kFormat, flags = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ordinal = 0;  // rises with each record of the topic, from 1; sampling measures recency in ordinals
  RequestId request;
  NameHash name;
  TenantId tenant;
  std::uint64_t group = 0;
  std::int64_t created_us = 0, expires_us = 0;
  std::string topic;
  std::size_t frame_bytes = 0;  // header and payload

  bool tombstone() const { return (flags & kTombstone) != 0; }
  bool sampled() const { return (flags & kSampled) != 0; }
  // Whether sequence, ordinal and topic have values that the replay buffer writes. It skips other frames, even with a
  // correct CRC.
  bool plausible() const;
  // The scope that a tombstone removes. REQUIRES: tombstone().
  PurgeScope scope() const;
};

// The hash of a prompt's tokens, by which a warm-up decides which prompts it holds out. Never change it: stored splits
// depend on it.
std::uint64_t hash_tokens(std::span<const std::int32_t> tokens);

// The frame of a record, in format 4. Of each distribution at most 255 entries are stored.
std::vector<std::byte> encode_record(const ReplayRecord& record, std::uint64_t ordinal);
// The frame of a tombstone. REQUIRES: the scope has at most one call, or a name and no call.
std::vector<std::byte> encode_tombstone(const PurgeScope& scope, std::uint64_t sequence, std::int64_t created_us);

// The frame at the start of `bytes`. Empty on a wrong magic, format or CRC, or if the frame is longer than `bytes`.
std::optional<FrameHeader> parse_frame(std::span<const std::byte> bytes);
// Whether `bytes` are the beginning of a longer frame, as an interrupted write leaves it.
bool is_unfinished_frame(std::span<const std::byte> bytes);
// The record of a whole frame. Empty if parse_frame() refuses it or the payload violates a bound.
std::optional<ReplayRecord> decode_record(std::span<const std::byte> frame);

}  // namespace slip
