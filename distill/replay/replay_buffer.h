// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/purge_scope.h"
#include "distill/replay/replay_record.h"

namespace slip {

struct ReplayOptions {
  static constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{256} << 20;  // a whole one is in memory at times

  std::filesystem::path folder;  // <data>/replay
  std::uint64_t max_bytes_per_topic = std::uint64_t{256} << 20;
  std::uint64_t segment_bytes = std::uint64_t{8} << 20;
  std::int64_t ttl_us = std::int64_t{7} * 24 * 3600 * 1'000'000;
  double recency_half_life_requests = 2000;  // weight of a record halves every so many newer ones
  double heldout_share = 0.1;                // by group, so that near-copies do not leak
};

struct ReplayStats {
  std::uint64_t records = 0, bytes = 0;    // live
  std::uint64_t dead_bytes = 0;            // evicted, expired, purged or damaged, until compaction frees them
  std::uint64_t torn_bytes = 0;            // cut at start
  std::uint64_t dropped = 0, expired = 0;  // records: damaged or over the budget by themselves; past their expiry
};

// What the target said, kept per topic: a byte-budgeted, recency-weighted reservoir over append-only segments. A
// segment starts with magic and format version; each record carries length, CRC32C, request id, tenant hash, topic,
// time, expiry and flags; a torn tail is cut at start and counted; segments compact when half is dead; files are 0600.
// fdatasync once a second at most (sync()). Fail points `replay.*`. Threads: one owner (the trainer thread).
class ReplayBuffer {
 public:
  explicit ReplayBuffer(ReplayOptions options);
  ~ReplayBuffer();

  // Assigns and returns the record's sequence number; fills in created_us and expires_us where they are 0. May evict
  // (reservoir) records of the topic. Error{kIo} when the disk refuses: nothing was added, the buffer stays usable.
  std::uint64_t append(ReplayRecord record);
  // Makes everything appended so far survive a power loss. Error{kIo}.
  void sync();
  // `n` training records of a topic, drawn with recency weights by an addressed generator (seed, draw); never held-out
  // ones, none with sequence > `newest`. Fewer when there are fewer.
  std::vector<ReplayRecord> sample(const std::string& topic, std::size_t n, std::uint64_t seed, std::uint64_t draw,
                                   std::uint64_t newest = ~std::uint64_t{0}) const;
  // Held-out records of a topic, oldest first, at most `limit` (the newest ones when more).
  std::vector<ReplayRecord> heldout(const std::string& topic, std::size_t limit) const;
  // Removes the records of a scope as of now, not learned influence: the weights trained on them stay. Survives a
  // restart, and their bytes are off the disk when it returns. How many records; their evicted or expired ones count
  // while bytes of them are there. Error{kIo}: it may be done in part, and ends at the next start; Error{kDataLoss}:
  // all but segments that this version does not read was done.
  std::size_t purge(const PurgeScope& scope);
  // Drops what is past its expiry; what would expire later than a whole TTL from now is dated by a wrong clock, and
  // expires then.
  std::size_t expire(std::int64_t now_us);
  std::size_t records(const std::string& topic) const;
  std::uint64_t last_sequence() const;
  std::vector<std::string> topics() const;
  ReplayStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
