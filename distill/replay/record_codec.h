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

// One frame of a replay segment, little-endian:
//
//   magic u32 | crc32c u32 over all that follows | payload bytes u32 | format u16 | flags u16
//   sequence u64 | ordinal u64 | request u64 | tenant u64 | group u64 | created i64 | expires i64
//   payload: topic (u8 length, bytes), then the record; a tombstone has the topic only. Of a purge by time it has the
//   instant where records have `expires`.
//
// Format 1 had neither min_p nor choice; it is still read (no min-p, choice 0), never written.
//
// A distribution takes 6 bytes an entry: id u32, −log p in 1/2048 nat as u16 (half a step is 0.00024 nat; 32 nats and
// beyond are the last step). Everything read back is hostile until the CRC and every bound has been checked.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x43455253;  // "SREC"
  static constexpr std::uint16_t kOldestFormat = 1, kFormat = 3;
  static constexpr std::uint16_t kTombstone = 1;        // removes every earlier record of its scope
  static constexpr std::uint16_t kProcessedLogits = 2;  // ReplayRecord::processed_logits
  static constexpr std::uint16_t kOfTenant = 4;         // a tombstone's scope is of its tenant
  static constexpr std::uint16_t kOfTime = 8;           // … of records finished before `expires`
  static constexpr std::size_t kBytes = 72;
  static constexpr std::size_t kMaxTopicName = 48;
  static constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;  // of a sequence or ordinal
  static constexpr std::size_t kMaxPayloadBytes = std::size_t{64} << 20;

  std::uint16_t format = kFormat, flags = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ordinal = 0;  // rising in its topic; recency is counted in these
  RequestId request;
  TenantId tenant;
  std::uint64_t group = 0;
  std::int64_t created_us = 0, expires_us = 0;
  std::string topic;
  std::size_t frame_bytes = 0;  // header and payload

  bool tombstone() const { return (flags & kTombstone) != 0; }
  // Whether the numbers and the topic are such as the replay buffer writes; it skips a frame that passes its CRC and
  // has others.
  bool plausible() const;
  // What a tombstone removes. REQUIRES: tombstone().
  PurgeScope scope() const;
};

// Hash of a prompt; decides which prompts a warm-up holds out. Never change it: the split is stored by it.
std::uint64_t hash_tokens(std::span<const std::int32_t> tokens);

std::vector<std::byte> encode_record(const ReplayRecord& record, std::uint64_t ordinal);
// REQUIRES: the scope has one call at most.
std::vector<std::byte> encode_tombstone(const PurgeScope& scope, std::uint64_t sequence, std::int64_t created_us);

// The frame at the start of `bytes`, or nothing: wrong magic, format or CRC, or more bytes claimed than there are.
std::optional<FrameHeader> parse_frame(std::span<const std::byte> bytes);
// Whether `bytes` are the beginning of a frame that would go on beyond them: what a write that was cut short leaves.
bool is_unfinished_frame(std::span<const std::byte> bytes);
// The record of a whole frame; nothing when parse_frame would refuse it or the payload breaks a bound.
std::optional<ReplayRecord> decode_record(std::span<const std::byte> frame);

}  // namespace slip
