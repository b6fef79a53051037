// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "distill/replay/segment.h"

namespace slip {

// Where a frame lies. Compaction moves frames and says so through SegmentLog::Listener.
struct FramePlace {
  std::uint64_t segment = 0, offset = 0, bytes = 0;
};

// The replay files of one folder as one log: grows at the end, shrinks by rewriting segments half of which is dead, and
// opens after a crash at any instant. Knows which frames are alive, not what they mean. Threads: one owner.
class SegmentLog {
 public:
  struct Listener {
    std::function<bool(const FrameHeader&, const FramePlace&)> on_found;  // while opening; false: not a frame of ours
    std::function<void(std::uint64_t sequence, std::uint64_t offset)> on_moved;
    std::function<void(std::uint64_t sequence)> on_damaged;  // a live frame no longer passes its CRC
  };
  struct Figures {
    std::uint64_t dead_bytes = 0, torn_bytes = 0, damaged = 0;
  };

  // Reads every segment, cuts torn tails, finishes interrupted purges. What is damaged is skipped, and one warning says
  // of which files how much. Error{kIo, kPermission}.
  SegmentLog(std::filesystem::path folder, std::uint64_t segment_bytes, Listener listener);

  // Error{kIo}: nothing was added, and the log stays usable.
  FramePlace append(std::span<const std::byte> frame, const FrameHeader& header);
  void sync();
  std::vector<std::byte> read(const FramePlace& place) const;
  void kill(const FramePlace& place);
  // Frames of a scope older than `newest`, dead ones too, as sequences. A purge must find their bytes.
  std::vector<std::uint64_t> sequences_in(const PurgeScope& scope, std::uint64_t newest) const;
  // Rewrites every segment with bytes of the tombstone's scope, and every one with bytes that no good frame holds: they
  // may be of it. Then lets the tombstone go: until the last segment is clean it must survive a crash.
  // REQUIRES: the scope's live frames have been killed.
  void erase_traces(const FrameHeader& tombstone, const FramePlace& place);
  // Whether a segment has bytes that no good frame holds.
  bool has_unread() const;
  // Segments of a later format version or with too large a number, which no purge reaches.
  const std::vector<std::filesystem::path>& foreign_segments() const { return foreign_; }
  // A refusal (a full disk) only means that dead bytes stay a while longer.
  void compact_where_half_is_dead();
  Figures figures() const;

 private:
  // Dead frames are listed too: a purge must find their bytes.
  struct Slot {
    std::uint64_t offset = 0, bytes = 0, sequence = 0;
    RequestId request;
    TenantId tenant;
    std::int64_t created_us = 0;
    bool alive = true, tombstone = false;
  };
  struct Segment {
    std::uint64_t bytes = 0, live_bytes = 0;
    std::vector<Slot> slots;  // by offset
    bool older = false;       // its header names an earlier format: nothing is appended to it
    bool unread = false;      // it has bytes that no good frame holds
  };

  // What load() could not read.
  struct Skipped {
    std::vector<std::string> files;  // each with its bytes and records
    std::uint64_t torn_bytes = 0;    // cut off the segment that a crash found growing
  };

  void load(std::uint64_t number, bool growing, Skipped& skipped);
  void say(const Skipped& skipped) const;
  static Slot slot_of(const FrameHeader& header, std::uint64_t offset);
  static bool reaches(const PurgeScope& scope, std::uint64_t newest, const Slot& slot);
  bool load_frame(std::uint64_t number, Segment& segment, const SegmentScan::Frame& frame);
  void continue_last();
  void make_room();
  void compact(std::uint64_t number);
  Segment copy_live_frames(std::uint64_t number, std::vector<std::byte>& content);

  std::filesystem::path folder_;
  std::uint64_t segment_bytes_;
  Listener listener_;
  std::map<std::uint64_t, Segment> segments_;
  std::uint64_t active_ = 0;  // the segment that grows; 0: the next append opens one
  std::uint64_t highest_ = 0;
  FileHandle active_file_;
  bool dirty_ = false;
  int compaction_pause_ = 0;  // calls until a refused compaction is tried again
  bool compaction_refused_ = false;
  Figures figures_;
  std::vector<std::filesystem::path> foreign_;
};

}  // namespace slip
