// SPDX-License-Identifier: Apache-2.0
#include "distill/replay_buffer.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "common/log.h"
#include "distill/reservoir.h"
#include "distill/segment.h"
#include "engine/sample/random.h"

namespace slip {

namespace {

constexpr std::uint64_t kReservoirSeed = 0x5EED;
constexpr std::size_t kMaxTopicName = 48;
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;  // of a sequence or ordinal read from disk
constexpr std::uint64_t kCompactionPause = 64;                // appends until a refused compaction is tried again

// A frame of a segment, dead ones included: a purge must find those too.
struct Slot {
  std::uint64_t offset = 0, bytes = 0, sequence = 0;
  RequestId request;
  bool alive = true;
  bool tombstone = false;
};

struct Segment {
  std::uint64_t bytes = 0, live_bytes = 0;
  std::vector<Slot> slots;
};

struct Tombstone {
  RequestId request;
  std::uint64_t sequence = 0, segment = 0;
};

void check_options(const ReplayOptions& options) {
  const bool legal = options.recency_half_life_requests > 0 && options.heldout_share >= 0 &&
                     options.heldout_share < 1 && options.segment_bytes > 0 && options.ttl_us > 0;
  if (!legal) {
    throw Error(ErrorCode::kInvalidArgument, "replay options out of range",
                "half life, segment size and ttl are above 0, heldout_share is in [0, 1)", "replay");
  }
}

}  // namespace

struct ReplayBuffer::State {
  ReplayOptions options;
  std::map<std::uint64_t, Segment> segments;
  std::map<std::string, Reservoir> topics;
  std::uint64_t active = 0;  // the segment that grows; 0: the next append opens one
  FileHandle active_file;
  bool dirty = false;
  std::uint64_t highest_segment = 0;
  std::uint64_t last_sequence = 0;
  std::uint64_t compact_again_at = 0;  // last_sequence from which compaction may be tried
  std::uint64_t torn_bytes = 0, dropped = 0, expired = 0;

  // Opening
  void open();
  void load_segment(std::uint64_t number, std::vector<Tombstone>& tombstones);
  bool add_frame(std::uint64_t number, const SegmentScan::Frame& frame, std::vector<Tombstone>& tombstones);
  void apply_tombstones(const std::vector<Tombstone>& tombstones);
  void continue_last_segment();

  // Growing
  void make_room();
  void write_frame(std::span<const std::byte> frame);
  void sync();
  Reservoir& topic_of(const std::string& name);
  bool heldout(std::uint64_t session_hash) const;

  // Shrinking
  void kill(const ReplayEntry& entry);
  std::size_t kill_request(const Tombstone& tombstone);
  void erase_traces(const Tombstone& tombstone);
  void compact_where_half_is_dead();
  void compact(std::uint64_t number);

  std::optional<ReplayRecord> read(const std::string& topic, const ReplayEntry& entry);
  std::vector<ReplayRecord> read_all(const std::string& topic, const std::vector<ReplayEntry>& entries);
};

// ---- opening

void ReplayBuffer::State::open() {
  ensure_private_directory(options.folder);
  std::vector<std::uint64_t> numbers;
  for (const auto& item : std::filesystem::directory_iterator(options.folder)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(".tmp")) std::filesystem::remove(item.path());  // an interrupted compaction
    if (const auto number = segment_number(name); number && *number < kMaxNumber) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<Tombstone> tombstones;
  for (const std::uint64_t number : numbers) load_segment(number, tombstones);
  apply_tombstones(tombstones);
  for (auto& [name, topic] : topics) {
    for (const ReplayEntry& entry : topic.evict_over(options.max_bytes_per_topic)) kill(entry);
  }
  continue_last_segment();
  compact_where_half_is_dead();
}

void ReplayBuffer::State::load_segment(std::uint64_t number, std::vector<Tombstone>& tombstones) {
  highest_segment = std::max(highest_segment, number);
  const auto path = segment_path(options.folder, number);
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path))) return;
  const std::uint64_t on_disk = std::filesystem::file_size(path);
  const std::uint64_t readable =
      std::min(on_disk, options.segment_bytes + FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes);
  const SegmentScan scan = scan_segment(read_at(path, 0, readable));
  if (scan.foreign) {
    log_warn("replay: " + path.string() + " has a format this build does not know; left alone");
    return;
  }
  dropped += scan.damaged_gaps;
  const bool whole = !scan.gave_up && readable == on_disk;
  if (whole && scan.good_bytes < on_disk) torn_bytes += on_disk - scan.good_bytes;
  if (whole && scan.frames.empty() && scan.good_bytes < kSegmentHeaderBytes) {
    remove_segment(options.folder, number);  // a crash before its header was whole
    return;
  }
  if (whole && scan.good_bytes < on_disk) cut_segment(path, scan.good_bytes);
  Segment& segment = segments[number];
  segment.bytes = whole ? scan.good_bytes : on_disk;
  for (const auto& frame : scan.frames) {
    if (!add_frame(number, frame, tombstones)) ++dropped;
  }
  if (!whole) segment.bytes = std::max(segment.bytes, options.segment_bytes);  // sealed: nothing is appended to it
}

bool ReplayBuffer::State::add_frame(std::uint64_t number, const SegmentScan::Frame& frame,
                                    std::vector<Tombstone>& tombstones) {
  const FrameHeader& header = frame.header;
  const bool plausible =
      header.sequence > 0 && header.sequence < kMaxNumber && header.ordinal < kMaxNumber &&
      (header.tombstone() || (!header.topic.empty() && header.topic.size() <= kMaxTopicName && header.ordinal > 0));
  if (!plausible) return false;
  Segment& segment = segments[number];
  Slot slot{frame.offset, header.frame_bytes, header.sequence, header.request, true, header.tombstone()};
  if (header.tombstone()) {
    tombstones.push_back({header.request, header.sequence, number});
  } else {
    Reservoir& topic = topic_of(header.topic);
    if (topic.find(header.sequence) != nullptr) return false;
    topic.insert({header.sequence, header.ordinal, header.request, header.expires_us, heldout(header.session_hash),
                  number, frame.offset, header.frame_bytes});
  }
  last_sequence = std::max(last_sequence, header.sequence);
  segment.live_bytes += slot.bytes;
  segment.slots.push_back(slot);
  return true;
}

// A tombstone still on disk means that a purge was cut short: finish it.
void ReplayBuffer::State::apply_tombstones(const std::vector<Tombstone>& tombstones) {
  for (const Tombstone& tombstone : tombstones) {
    kill_request(tombstone);
    erase_traces(tombstone);
  }
}

void ReplayBuffer::State::continue_last_segment() {
  if (segments.empty()) return;
  const auto& [number, segment] = *segments.rbegin();
  if (number != highest_segment || segment.bytes >= options.segment_bytes) return;
  active_file = open_for_append(segment_path(options.folder, number));
  active = number;
}

// ---- growing

Reservoir& ReplayBuffer::State::topic_of(const std::string& name) {
  return topics.try_emplace(name, options.recency_half_life_requests, kReservoirSeed).first->second;
}

bool ReplayBuffer::State::heldout(std::uint64_t session_hash) const {
  return uniform(RandomAddress{session_hash}, RandomPurpose::kDraft) < options.heldout_share;
}

void ReplayBuffer::State::make_room() {
  if (active != 0 && segments.at(active).bytes < options.segment_bytes) return;
  sync();  // a sealed segment is durable: sync() only knows the active one
  const std::uint64_t number = highest_segment + 1;
  FileHandle created = create_segment(options.folder, number);
  highest_segment = active = number;
  active_file = std::move(created);
  segments[number].bytes = kSegmentHeaderBytes;
}

void ReplayBuffer::State::write_frame(std::span<const std::byte> frame) {
  const std::uint64_t before = segments.at(active).bytes;
  dirty = true;
  try {
    write_all(active_file.get(), frame, "replay.append");
  } catch (const Error&) {
    // Half a frame may be there; what follows must not stand behind it.
    if (::ftruncate(active_file.get(), static_cast<off_t>(before)) != 0) active = 0;
    throw;
  }
  segments.at(active).bytes += frame.size();
}

void ReplayBuffer::State::sync() {
  if (!dirty || !active_file) return;
  fail_point("replay.sync.fsync");
  if (::fdatasync(active_file.get()) != 0) {
    throw Error(ErrorCode::kIo,
                "cannot fdatasync " + segment_path(options.folder, active).string() + ": " + std::strerror(errno));
  }
  dirty = false;
}

// ---- shrinking

void ReplayBuffer::State::kill(const ReplayEntry& entry) {
  Segment& segment = segments.at(entry.segment);
  const auto slot = std::lower_bound(segment.slots.begin(), segment.slots.end(), entry.offset,
                                     [](const Slot& s, std::uint64_t offset) { return s.offset < offset; });
  SLIP_CHECK(slot != segment.slots.end() && slot->sequence == entry.sequence, "an entry points at its own slot");
  if (!slot->alive) return;
  slot->alive = false;
  segment.live_bytes -= slot->bytes;
}

std::size_t ReplayBuffer::State::kill_request(const Tombstone& tombstone) {
  std::size_t killed = 0;
  for (auto& [name, topic] : topics) {
    std::vector<ReplayEntry> doomed;
    for (const auto& [sequence, entry] : topic.entries()) {
      if (entry.request == tombstone.request && sequence < tombstone.sequence) doomed.push_back(entry);
    }
    for (const ReplayEntry& entry : doomed) {
      kill(entry);
      topic.erase(entry.sequence);
    }
    killed += doomed.size();
  }
  return killed;
}

// Rewrites every segment that holds bytes of the request, the tombstone's own last: until then it must stay.
void ReplayBuffer::State::erase_traces(const Tombstone& tombstone) {
  const auto holds_request = [&](const Segment& segment) {
    return std::any_of(segment.slots.begin(), segment.slots.end(), [&](const Slot& slot) {
      return slot.request == tombstone.request && !slot.tombstone && slot.sequence < tombstone.sequence;
    });
  };
  std::vector<std::uint64_t> others;
  for (const auto& [number, segment] : segments) {
    if (number != tombstone.segment && holds_request(segment)) others.push_back(number);
  }
  for (const std::uint64_t number : others) compact(number);
  Segment& own = segments.at(tombstone.segment);
  for (Slot& slot : own.slots) {
    if (!slot.tombstone || slot.sequence != tombstone.sequence || !slot.alive) continue;
    slot.alive = false;
    own.live_bytes -= slot.bytes;
  }
  if (holds_request(own)) compact(tombstone.segment);
}

// A refusal (a full disk) only means that dead bytes stay a while longer.
void ReplayBuffer::State::compact_where_half_is_dead() {
  if (last_sequence < compact_again_at) return;
  std::vector<std::uint64_t> due;
  for (const auto& [number, segment] : segments) {
    if (number != active && segment.live_bytes * 2 <= segment.bytes) due.push_back(number);
  }
  try {
    for (const std::uint64_t number : due) compact(number);
  } catch (const Error& error) {
    log_warn("replay: compaction waits: " + error.message());
    compact_again_at = last_sequence + kCompactionPause;
  }
}

void ReplayBuffer::State::compact(std::uint64_t number) {
  Segment& old = segments.at(number);
  const auto path = segment_path(options.folder, number);
  std::vector<std::byte> content = encode_segment_header(number);
  Segment fresh;
  for (const Slot& slot : old.slots) {
    if (!slot.alive) continue;
    const auto frame = read_at(path, slot.offset, slot.bytes);
    if (!parse_frame(frame)) {
      ++dropped;
      for (auto& [name, topic] : topics) topic.erase(slot.sequence);
      continue;
    }
    fresh.slots.push_back(slot);
    fresh.slots.back().offset = content.size();
    fresh.live_bytes += slot.bytes;
    content.insert(content.end(), frame.begin(), frame.end());
  }
  if (fresh.slots.empty() && number != active) {
    remove_segment(options.folder, number);
    segments.erase(number);
    return;
  }
  fresh.bytes = content.size();
  replace_segment(options.folder, number, content);
  if (number == active) active_file = open_for_append(path);
  for (const Slot& slot : fresh.slots) {
    for (auto& [name, topic] : topics) {
      if (ReplayEntry* entry = topic.find(slot.sequence)) entry->offset = slot.offset;
    }
  }
  old = std::move(fresh);
}

// ---- reading

std::optional<ReplayRecord> ReplayBuffer::State::read(const std::string& topic, const ReplayEntry& entry) {
  auto record = decode_record(read_at(segment_path(options.folder, entry.segment), entry.offset, entry.bytes));
  if (record && record->sequence == entry.sequence && record->topic == topic) return record;
  ++dropped;  // the disk changed its mind since start
  kill(entry);
  topics.at(topic).erase(entry.sequence);
  return std::nullopt;
}

std::vector<ReplayRecord> ReplayBuffer::State::read_all(const std::string& topic,
                                                        const std::vector<ReplayEntry>& entries) {
  std::vector<ReplayRecord> records;
  for (const ReplayEntry& entry : entries) {
    if (auto record = read(topic, entry)) records.push_back(std::move(*record));
  }
  return records;
}

// ---- the face

ReplayBuffer::ReplayBuffer(ReplayOptions options) : state_(std::make_unique<State>()) {
  check_options(options);
  state_->options = std::move(options);
  state_->open();
  expire(wall_us());
}

ReplayBuffer::~ReplayBuffer() {
  try {
    sync();
  } catch (const Error& error) {
    log_warn("replay: " + error.message());
  }
}

std::uint64_t ReplayBuffer::append(ReplayRecord record) {
  State& state = *state_;
  if (record.topic.empty() || record.topic.size() > kMaxTopicName) {
    throw Error(ErrorCode::kInvalidArgument, "a topic's name has 1 to 48 characters", {}, "topic");
  }
  if (record.created_us == 0) record.created_us = wall_us();
  if (record.expires_us == 0) record.expires_us = record.created_us + state.options.ttl_us;
  Reservoir& topic = state.topic_of(record.topic);
  record.sequence = state.last_sequence + 1;
  const std::uint64_t ordinal = topic.next_ordinal();
  const auto frame = encode_record(record, ordinal);
  if (frame.size() > state.options.max_bytes_per_topic ||
      frame.size() > FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes) {
    ++state.dropped;
    return ++state.last_sequence;
  }
  state.make_room();
  const std::uint64_t offset = state.segments.at(state.active).bytes;
  state.write_frame(frame);
  state.last_sequence = record.sequence;
  Segment& segment = state.segments.at(state.active);
  segment.slots.push_back({offset, frame.size(), record.sequence, record.request, true, false});
  segment.live_bytes += frame.size();
  topic.insert({record.sequence, ordinal, record.request, record.expires_us, state.heldout(record.session_hash),
                state.active, offset, frame.size()});
  for (const ReplayEntry& entry : topic.evict_over(state.options.max_bytes_per_topic)) state.kill(entry);
  state.compact_where_half_is_dead();
  return record.sequence;
}

void ReplayBuffer::sync() {
  state_->sync();
}

std::vector<ReplayRecord> ReplayBuffer::sample(const std::string& topic, std::size_t n, std::uint64_t seed,
                                               std::uint64_t draw, std::uint64_t newest) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return {};
  return state_->read_all(topic, found->second.sample(n, seed, draw, newest));
}

std::vector<ReplayRecord> ReplayBuffer::newer_than(const std::string& topic, std::uint64_t cut_off,
                                                   std::size_t limit) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return {};
  return state_->read_all(
      topic, found->second.newest(limit, [&](const ReplayEntry& entry) { return entry.sequence > cut_off; }));
}

std::vector<ReplayRecord> ReplayBuffer::heldout(const std::string& topic, std::size_t limit) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return {};
  return state_->read_all(topic, found->second.newest(limit, [](const ReplayEntry& entry) { return entry.heldout; }));
}

bool ReplayBuffer::is_heldout(const ReplayRecord& record) const {
  return state_->heldout(record.session_hash);
}

std::size_t ReplayBuffer::purge_request(RequestId request) {
  State& state = *state_;
  const std::uint64_t sequence = state.last_sequence + 1;
  state.make_room();
  const std::uint64_t offset = state.segments.at(state.active).bytes;
  const auto frame = encode_tombstone(request, sequence, wall_us());
  state.write_frame(frame);
  state.sync();
  state.last_sequence = sequence;
  Segment& segment = state.segments.at(state.active);
  segment.slots.push_back({offset, frame.size(), sequence, request, true, true});
  segment.live_bytes += frame.size();
  const Tombstone tombstone{request, sequence, state.active};
  const std::size_t killed = state.kill_request(tombstone);
  state.erase_traces(tombstone);
  return killed;
}

std::size_t ReplayBuffer::expire(std::int64_t now_us) {
  std::size_t n = 0;
  for (auto& [name, topic] : state_->topics) {
    std::vector<ReplayEntry> old;
    for (const auto& [sequence, entry] : topic.entries()) {
      if (entry.expires_us <= now_us) old.push_back(entry);
    }
    for (const ReplayEntry& entry : old) {
      state_->kill(entry);
      topic.erase(entry.sequence);
    }
    n += old.size();
  }
  state_->expired += n;
  if (n > 0) state_->compact_where_half_is_dead();
  return n;
}

std::size_t ReplayBuffer::records(const std::string& topic) const {
  const auto found = state_->topics.find(topic);
  return found == state_->topics.end() ? 0 : found->second.entries().size();
}

std::uint64_t ReplayBuffer::last_sequence() const {
  return state_->last_sequence;
}

std::vector<std::string> ReplayBuffer::topics() const {
  std::vector<std::string> names;
  for (const auto& [name, topic] : state_->topics) names.push_back(name);
  return names;
}

ReplayStats ReplayBuffer::stats() const {
  ReplayStats stats;
  for (const auto& [name, topic] : state_->topics) {
    stats.records += topic.entries().size();
    stats.bytes += topic.bytes();
  }
  for (const auto& [number, segment] : state_->segments) {
    stats.dead_bytes += segment.bytes - std::min(segment.bytes, segment.live_bytes + kSegmentHeaderBytes);
  }
  stats.torn_bytes = state_->torn_bytes;
  stats.dropped = state_->dropped;
  stats.expired = state_->expired;
  return stats;
}

}  // namespace slip
