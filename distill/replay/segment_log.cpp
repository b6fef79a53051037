// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/segment_log.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/log.h"

namespace slip {

namespace {

constexpr int kCompactionPause = 64;

}  // namespace

SegmentLog::SegmentLog(std::filesystem::path folder, std::uint64_t segment_bytes, Listener listener)
    : folder_(std::move(folder)), segment_bytes_(segment_bytes), listener_(std::move(listener)) {
  ensure_private_directory(folder_);
  std::vector<std::uint64_t> numbers;
  Skipped skipped;
  for (const auto& item : std::filesystem::directory_iterator(folder_)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(".tmp")) {  // an interrupted compaction; a folder with content is not ours
      std::error_code refused;
      std::filesystem::remove(item.path(), refused);
    }
    const auto number = segment_number(name);
    if (!number) continue;
    if (*number <= kMaxSegmentNumber) {
      numbers.push_back(*number);
    } else {
      skipped.files.push_back(name + " (its number is over " + std::to_string(kMaxSegmentNumber) + ")");
    }
  }
  std::sort(numbers.begin(), numbers.end());
  for (const std::uint64_t number : numbers) load(number, /*growing=*/number == numbers.back(), skipped);
  say(skipped);
  continue_last();
}

std::vector<std::filesystem::path> SegmentLog::foreign_files() const {
  std::vector<std::filesystem::path> files;
  std::error_code gone;  // with the folder
  for (const auto& item : std::filesystem::directory_iterator(folder_, gone)) {
    const auto number = segment_number(item.path().filename().string());
    if (!number || !segments_.contains(*number)) files.push_back(item.path());
  }
  return files;
}

void SegmentLog::load(std::uint64_t number, bool growing, Skipped& skipped) {
  highest_ = std::max(highest_, number);
  const auto path = segment_path(folder_, number);
  const std::string name = path.filename().string();
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path))) {
    skipped.files.push_back(name + " (not a regular file)");
    return;
  }
  const std::uint64_t on_disk = std::filesystem::file_size(path);
  const std::uint64_t readable =
      std::min(on_disk, segment_bytes_ + FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes);
  const SegmentScan scan = scan_segment(read_at(path, 0, readable), growing);
  if (scan.foreign) {
    log_warn("replay: " + path.string() + " has a format this build does not know; left alone");
    return;
  }
  figures_.damaged += scan.damaged_gaps;
  std::uint64_t bytes = scan.damaged_bytes + on_disk - readable, records = scan.damaged_records;
  const bool whole = !scan.gave_up && readable == on_disk;
  if (whole && scan.good_bytes < on_disk) figures_.torn_bytes += on_disk - scan.good_bytes;
  skipped.torn_bytes += scan.torn_bytes;
  if (!whole || scan.good_bytes >= kSegmentHeaderBytes) {
    if (whole && scan.good_bytes < on_disk) cut_segment(path, scan.good_bytes);
    Segment& segment = segments_[number];
    segment.bytes = whole ? scan.good_bytes : std::max(on_disk, segment_bytes_);  // counts as full: no appends
    segment.older = scan.older;
    segment.unread = !whole || scan.damaged_gaps > 0;
    for (const auto& frame : scan.frames) {
      if (load_frame(number, segment, frame)) continue;
      ++figures_.damaged;
      segment.unread = true;
      bytes += frame.header.frame_bytes;
      ++records;
    }
  } else {
    remove_segment(folder_, number);  // it has no whole header
  }
  if (bytes == 0 && records == 0) return;
  skipped.files.push_back(name + " (" + std::to_string(bytes) + " bytes, records: at least " + std::to_string(records) +
                          ")");
}

void SegmentLog::say(const Skipped& skipped) const {
  constexpr std::size_t kMostNamed = 8;
  if (skipped.torn_bytes > 0) {
    log_info("replay: " + std::to_string(skipped.torn_bytes) + " bytes of a record that was cut short are removed");
  }
  if (skipped.files.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(skipped.files.size(), kMostNamed); ++i) {
    text += (i == 0 ? " " : ", ") + skipped.files[i];
  }
  if (skipped.files.size() > kMostNamed) text += " and " + std::to_string(skipped.files.size() - kMostNamed) + " more";
  log_warn("replay: skipped what is damaged in " + folder_.string() + ":" + text);
}

SegmentLog::Slot SegmentLog::slot_of(const FrameHeader& header, std::uint64_t offset) {
  return {offset,        header.frame_bytes, header.sequence, header.request,    header.name,
          header.tenant, header.created_us,  /*alive=*/true,  header.tombstone()};
}

bool SegmentLog::load_frame(std::uint64_t number, Segment& segment, const SegmentScan::Frame& frame) {
  const FrameHeader& header = frame.header;
  if (!listener_.on_found(header, {number, frame.offset, header.frame_bytes})) return false;
  segment.slots.push_back(slot_of(header, frame.offset));
  segment.live_bytes += header.frame_bytes;
  return true;
}

void SegmentLog::continue_last() {
  if (segments_.empty()) return;
  const auto& [number, segment] = *segments_.rbegin();
  if (number != highest_ || segment.older || segment.bytes >= segment_bytes_) return;
  active_file_ = open_for_append(segment_path(folder_, number));
  active_ = number;
}

// Someone may delete or replace files of a running service. The open file would take all later frames, and nobody would
// read them again. If the whole folder was moved, the file went with it and may come back with it.
void SegmentLog::require_active_file() {
  if (active_ == 0) return;
  const auto path = segment_path(folder_, active_);
  struct stat opened = {}, named = {}, folder = {};
  const bool is_deleted = ::fstat(active_file_.get(), &opened) == 0 && opened.st_nlink == 0;
  const bool is_named =
      ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
  if (!is_deleted && (is_named || ::stat(folder_.c_str(), &folder) != 0)) {
    if (static_cast<std::uint64_t>(opened.st_size) == segments_.at(active_).bytes) return;
    // Later frames would not stand where they are looked for. What is left of it stays, for reads and purges.
    warn_unreadable(active_);
    segments_.at(active_).unread = true;
    active_ = 0;
    return;
  }
  std::size_t n_lost = 0;
  for (const Slot& slot : segments_.at(active_).slots) {
    if (!slot.alive || slot.tombstone) continue;
    listener_.on_damaged(slot.sequence);
    ++n_lost;
  }
  figures_.damaged += n_lost;
  segments_.erase(active_);
  active_ = 0;
  dirty_ = false;
  throw Error(ErrorCode::kIo,
              path.string() + " was deleted, moved or replaced, and with it " + std::to_string(n_lost) + " records",
              "stop the service before you change its files");
}

void SegmentLog::make_room() {
  require_active_file();
  if (active_ != 0 && segments_.at(active_).bytes < segment_bytes_) return;
  if (highest_ == kMaxSegmentNumber) {
    throw Error(ErrorCode::kIo, segment_path(folder_, highest_).string() + " has the largest number of a segment",
                "stop the service and give that file the number behind the others'");
  }
  sync();  // it covers only the active segment, so it must run before another one becomes active
  FileHandle created = create_segment(folder_, highest_ + 1);
  segments_[++highest_].bytes = kSegmentHeaderBytes;
  active_ = highest_;
  active_file_ = std::move(created);
}

FramePlace SegmentLog::append(std::span<const std::byte> frame, const FrameHeader& header) {
  make_room();
  Segment& segment = segments_.at(active_);
  const FramePlace place{active_, segment.bytes, frame.size()};
  dirty_ = true;
  segment.slots.push_back(slot_of(header, place.offset));  // before it is written: there may be no memory for it
  try {
    write_all(active_file_.get(), frame, "replay.append");
  } catch (const std::exception&) {
    segment.slots.pop_back();
    // Cut a partly written frame, so that no later frame follows it. If that fails, the next append opens a new
    // segment.
    if (::ftruncate(active_file_.get(), static_cast<off_t>(place.offset)) != 0) active_ = 0;
    throw;
  }
  segment.bytes += frame.size();
  segment.live_bytes += frame.size();
  return place;
}

void SegmentLog::sync() {
  if (!dirty_ || !active_file_) return;
  fail_point("replay.sync.fsync");
  if (::fdatasync(active_file_.get()) != 0) {
    throw Error(ErrorCode::kIo,
                "cannot fdatasync a replay segment in " + folder_.string() + ": " + std::strerror(errno));
  }
  dirty_ = false;
}

std::vector<std::byte> SegmentLog::read(const FramePlace& place) const {
  const auto path = segment_path(folder_, place.segment);
  const bool is_file = std::filesystem::is_regular_file(std::filesystem::symlink_status(path));
  if (!is_file && std::filesystem::exists(folder_)) return {};
  return read_at(path, place.offset, place.bytes);
}

void SegmentLog::warn_unreadable(std::uint64_t segment) {
  if (!unreadable_.insert(segment).second) return;
  log_warn("replay: " + segment_path(folder_, segment).string() +
           " was changed while the service ran: records that can no longer be read are dropped");
}

void SegmentLog::kill(const FramePlace& place) {
  Segment& segment = segments_.at(place.segment);
  const auto slot = std::lower_bound(segment.slots.begin(), segment.slots.end(), place.offset,
                                     [](const Slot& s, std::uint64_t offset) { return s.offset < offset; });
  SLIP_CHECK(slot != segment.slots.end() && slot->offset == place.offset, "a place names the start of a frame");
  if (!slot->alive) return;
  slot->alive = false;
  segment.live_bytes -= slot->bytes;
}

bool SegmentLog::reaches(const PurgeScope& scope, std::uint64_t newest, const Slot& slot) {
  return !slot.tombstone && slot.sequence < newest &&
         scope.contains(slot.request, slot.name, slot.tenant, slot.created_us);
}

std::vector<std::uint64_t> SegmentLog::sequences_in(const PurgeScope& scope, std::uint64_t newest) const {
  std::vector<std::uint64_t> sequences;
  for (const auto& [number, segment] : segments_) {
    for (const Slot& slot : segment.slots) {
      if (reaches(scope, newest, slot)) sequences.push_back(slot.sequence);
    }
  }
  return sequences;
}

bool SegmentLog::has_unread() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const auto& item) { return item.second.unread; });
}

void SegmentLog::erase_traces(const FrameHeader& tombstone, const FramePlace& place) {
  const PurgeScope scope = tombstone.scope();
  const auto has_traces = [&](const Segment& segment) {
    return segment.unread || std::any_of(segment.slots.begin(), segment.slots.end(),
                                         [&](const Slot& slot) { return reaches(scope, tombstone.sequence, slot); });
  };
  for (auto& [number, segment] : segments_) {
    for (Slot& slot : segment.slots) {
      if (!reaches(scope, tombstone.sequence, slot) || !std::exchange(slot.alive, false)) continue;
      segment.live_bytes -= slot.bytes;
    }
  }
  std::vector<std::uint64_t> others;
  for (const auto& [number, segment] : segments_) {
    if (number != place.segment && has_traces(segment)) others.push_back(number);
  }
  for (const std::uint64_t number : others) compact(number);
  kill(place);
  if (has_traces(segments_.at(place.segment))) compact(place.segment);  // drops traces and tombstone in one rename
}

void SegmentLog::compact_where_half_is_dead() {
  if (compaction_pause_ > 0 && --compaction_pause_ > 0) return;
  std::vector<std::uint64_t> due;
  for (const auto& [number, segment] : segments_) {
    if (number != active_ && segment.live_bytes * 2 <= segment.bytes) due.push_back(number);
  }
  try {
    for (const std::uint64_t number : due) compact(number);
    if (!due.empty() && std::exchange(compaction_refused_, false)) log_info("replay: compaction works again");
  } catch (const Error& error) {
    if (!std::exchange(compaction_refused_, true)) log_warn("replay: compaction waits: " + error.message());
    compaction_pause_ = kCompactionPause;
  }
}

SegmentLog::Segment SegmentLog::copy_live_frames(std::uint64_t number, std::vector<std::byte>& content) {
  Segment fresh;
  for (const Slot& slot : segments_.at(number).slots) {
    if (!slot.alive) continue;
    const auto frame = read({number, slot.offset, slot.bytes});
    if (!parse_frame(frame)) {
      ++figures_.damaged;
      warn_unreadable(number);
      listener_.on_damaged(slot.sequence);
      continue;
    }
    fresh.slots.push_back(slot);
    fresh.slots.back().offset = content.size();
    fresh.live_bytes += slot.bytes;
    content.insert(content.end(), frame.begin(), frame.end());
  }
  fresh.bytes = content.size();
  return fresh;
}

void SegmentLog::compact(std::uint64_t number) {
  std::vector<std::byte> content = encode_segment_header(number);
  Segment fresh = copy_live_frames(number, content);
  if (fresh.slots.empty() && number != active_) {
    remove_segment(folder_, number);
    segments_.erase(number);
    return;
  }
  replace_segment(folder_, number, content);
  if (number == active_) active_file_ = open_for_append(segment_path(folder_, number));
  for (const Slot& slot : fresh.slots) listener_.on_moved(slot.sequence, slot.offset);
  segments_.at(number) = std::move(fresh);
}

SegmentLog::Figures SegmentLog::figures() const {
  Figures figures = figures_;
  for (const auto& [number, segment] : segments_) {
    figures.dead_bytes += segment.bytes - std::min(segment.bytes, segment.live_bytes + kSegmentHeaderBytes);
  }
  return figures;
}

}  // namespace slip
