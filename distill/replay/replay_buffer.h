// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/purge_scope.h"
#include "distill/replay/replay_reader.h"
#include "distill/replay/replay_record.h"

namespace slip {

struct ReplayOptions {
  static constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{256} << 20;  // loading holds a segment in memory

  std::filesystem::path folder;  // <data>/replay
  std::uint64_t max_bytes_per_topic = std::uint64_t{256} << 20;
  std::uint64_t segment_bytes = std::uint64_t{8} << 20;
  std::int64_t ttl_us = std::int64_t{7} * 24 * 3600 * 1'000'000;
  double recency_half_life_requests = 2000;  // a record's weight halves with this number of newer ones
  double heldout_share = 0.1;                // split by group, so that no near-copy leaks into training
};

struct ReplayStats {
  std::uint64_t records = 0, bytes = 0;    // live
  std::uint64_t dead_bytes = 0;            // evicted, expired, purged or damaged, until compaction frees them
  std::uint64_t torn_bytes = 0;            // cut when the files were opened
  std::uint64_t dropped = 0, expired = 0;  // records: damaged or larger than the budget; past their expiry
};

// The replay buffer: records with the target's distributions, per topic a recency-weighted reservoir with a byte
// budget, stored in append-only segments. A segment starts with magic and format version. Each record carries length,
// CRC32C, request id, tenant hash, topic, time, expiry and flags. A torn tail is cut when the files are opened, and
// counted. A segment is compacted when half of it is dead. Files are 0600. The owner calls sync() (fdatasync) at most
// once a second. Fail points `replay.*`. Threads: one owner (RecordWriter's thread).
class ReplayBuffer final : public ReplayReader {
 public:
  explicit ReplayBuffer(ReplayOptions options);
  ~ReplayBuffer() override;

  // Appends a record, assigns its sequence number and returns it. Sets created_us and expires_us where they are 0. May
  // evict records of the topic from the reservoir. Error{kIo} when writing fails: nothing was added, and the buffer
  // stays usable.
  std::uint64_t append(ReplayRecord record);
  // Makes everything appended so far survive a power loss. Error{kIo}.
  void sync();
  std::vector<ReplayRecord> sample(const std::string& topic, std::size_t n, std::uint64_t seed, std::uint64_t draw,
                                   std::uint64_t newest = ~std::uint64_t{0}) const override;
  // Whether the records of a group (NearCopies) are held out from training.
  bool holds_out(std::uint64_t group) const;
  // Visits the newest `limit` answers to clients of a topic, oldest first: all records but ReplayRecord::sampled. One
  // of them is in memory at a time.
  void visit_newest_of_clients(const std::string& topic, std::size_t limit,
                               const std::function<void(ReplayRecord&)>& visit) const;
  std::vector<ReplayRecord> heldout(const std::string& topic, std::size_t limit,
                                    std::uint64_t newest = ~std::uint64_t{0}) const override;
  // Removes the records of a scope as of now. Weights that were trained on them stay. The purge is durable, and the
  // records' bytes are off the disk when it returns. Returns the number of records, including evicted or expired ones
  // whose bytes were still there. Error{kIo}: the purge may be incomplete, and is completed at the next start.
  // Error{kDataLoss}: everything was purged except segments that this version cannot read.
  std::size_t purge(const PurgeScope& scope);
  // Drops records past their expiry and returns their number, given both clocks' readings. A step of the wall clock,
  // also one since the newest record before the start, counts once it has lasted for an hour (PatientClock). A record
  // that would expire more than a whole TTL from now was dated by a wrong clock. It then expires one TTL from now; this
  // too needs a date that has lasted.
  std::size_t expire(std::int64_t wall_us, std::int64_t monotonic_us);
  std::size_t records(const std::string& topic) const;
  std::uint64_t last_sequence() const;
  std::vector<std::string> topics() const;
  ReplayStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
