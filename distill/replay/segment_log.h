// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "distill/replay/segment.h"

namespace slip {

// The place of a frame. Compaction moves frames, and reports it to SegmentLog::Listener.
struct FramePlace {
  std::uint64_t segment = 0, offset = 0, bytes = 0;
};

// The replay files of one folder as one log. It grows at the end, shrinks by rewriting segments of which half is dead,
// and can be opened after a crash at any time. It knows which frames are alive, but not their content. Threads: one
// owner.
class SegmentLog {
 public:
  struct Listener {
    std::function<bool(const FrameHeader&, const FramePlace&)> on_found;  // while opening; false: frame is not valid
    std::function<void(std::uint64_t sequence, std::uint64_t offset)> on_moved;
    std::function<void(std::uint64_t sequence)> on_damaged;  // a live frame no longer passes its CRC
  };
  struct Figures {
    std::uint64_t dead_bytes = 0, torn_bytes = 0, damaged = 0;
  };

  // Reads every segment, cuts torn tails and skips damaged parts. One warning names the damaged files and the amounts.
  // The listener's owner completes interrupted purges. Error{kIo, kPermission}.
  SegmentLog(std::filesystem::path folder, std::uint64_t segment_bytes, Listener listener);

  // Error{kIo}: nothing was added, and the log stays usable. So too when the segment that grows is no longer under its
  // name: its frames are reported as damaged, and the next append opens another one.
  FramePlace append(std::span<const std::byte> frame, const FrameHeader& header);
  void sync();  // fdatasync; Error{kIo}
  // Empty if the segment's file is gone, or something else is in its place, but the folder is there.
  std::vector<std::byte> read(const FramePlace& place) const;
  // Warns, once for each segment, that frames of it are dropped since they can no longer be read.
  void warn_unreadable(std::uint64_t segment);
  void kill(const FramePlace& place);  // marks a live frame as dead
  // The sequences of a scope's frames older than `newest`, including dead frames, since a purge must remove their bytes
  // too.
  std::vector<std::uint64_t> sequences_in(const PurgeScope& scope, std::uint64_t newest) const;
  // Rewrites every segment with bytes of the tombstone's scope, and every one with bytes in no good frame, since they
  // may belong to it. Then removes the tombstone, which must survive a crash until the last segment is clean. Kills the
  // scope's frames that are still alive.
  void erase_traces(const FrameHeader& tombstone, const FramePlace& place);
  // Whether any segment has bytes in no good frame.
  bool has_unread() const;
  // The files in the folder that this log does not read and purges do not reach: segments of a later format version,
  // with too large a number or that are no regular files, and files that are not its segments, such as copies.
  std::vector<std::filesystem::path> foreign_files() const;
  // Compacts segments of which at least half is dead. If that fails (a full disk), dead bytes only stay longer.
  void compact_where_half_is_dead();
  Figures figures() const;

 private:
  // One frame of a segment. Dead frames have slots too, since a purge must find their bytes.
  struct Slot {
    std::uint64_t offset = 0, bytes = 0, sequence = 0;
    RequestId request;
    NameHash name;
    TenantId tenant;
    std::int64_t created_us = 0;
    bool alive = true, tombstone = false;
  };
  struct Segment {
    std::uint64_t bytes = 0, live_bytes = 0;
    std::vector<Slot> slots;  // by offset
    bool older = false;       // its header names an earlier format: nothing is appended to it
    bool unread = false;      // it has bytes in no good frame
  };

  // The parts that load() could not read.
  struct Skipped {
    std::vector<std::string> files;  // each with its bytes and records
    std::uint64_t torn_bytes = 0;    // cut off the segment that was growing at a crash
  };

  void load(std::uint64_t number, bool growing, Skipped& skipped);
  void say(const Skipped& skipped) const;
  static Slot slot_of(const FrameHeader& header, std::uint64_t offset);
  static bool reaches(const PurgeScope& scope, std::uint64_t newest, const Slot& slot);
  bool load_frame(std::uint64_t number, Segment& segment, const SegmentScan::Frame& frame);
  void continue_last();
  void require_active_file();
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
  int compaction_pause_ = 0;  // calls until a failed compaction is retried
  bool compaction_refused_ = false;
  std::set<std::uint64_t> unreadable_;  // segments that were warned of
  Figures figures_;
};

}  // namespace slip
