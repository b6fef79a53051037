// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/replay_buffer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/patient_clock.h"
#include "common/topic_name.h"
#include "distill/replay/near_copies.h"
#include "distill/replay/reservoir.h"
#include "distill/replay/segment.h"
#include "distill/replay/segment_log.h"

namespace slip {

namespace {

constexpr std::uint64_t kReservoirSeed = 0x5EED;
constexpr std::int64_t kClockPatienceUs = std::int64_t{3600} * 1'000'000;  // before a wrong date may expire records

void check_options(const ReplayOptions& options) {
  const bool legal = options.recency_half_life_requests > 0 && options.heldout_share >= 0 &&
                     options.heldout_share < 1 && options.segment_bytes > 0 &&
                     options.segment_bytes <= ReplayOptions::kMaxSegmentBytes && options.ttl_us > 0;
  if (!legal) {
    throw Error(ErrorCode::kInvalidArgument, "replay options out of range",
                "half life, segment size (at most 256 MiB) and ttl are above 0, heldout_share is in [0, 1)", "replay");
  }
}

[[noreturn]] void refuse_foreign(const std::filesystem::path& file) {
  const std::string what = "what " + file.string() + " holds was not purged: ";
  if (!segment_number(file.filename().string())) {
    throw Error(ErrorCode::kDataLoss, what + "it is not one of the files that Slipstream keeps there",
                "remove it, or move it to another folder, and purge again");
  }
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file))) {
    throw Error(ErrorCode::kDataLoss, what + "it is not a regular file",
                "put the segment itself there, or remove this, and purge again with the service stopped");
  }
  throw Error(ErrorCode::kDataLoss, what + "this version does not read it",
              "purge with the version of Slipstream that wrote it, or remove the file");
}

FramePlace place_of(const ReplayEntry& entry) {
  return {entry.segment, entry.offset, entry.bytes};
}

}  // namespace

struct ReplayBuffer::State {
  explicit State(ReplayOptions given) : options(std::move(given)) {}

  void open();
  bool found(const FrameHeader& header, const FramePlace& place);
  Reservoir& topic_of(const std::string& name);
  void add(const FrameHeader& header, const FramePlace& place);
  void shrink(Reservoir& topic);
  std::size_t kill_where(const std::function<bool(const ReplayEntry&)>& doomed);
  void expire_by(std::int64_t latest_us);
  void bury(const FrameHeader& tombstone, const FramePlace& place);
  std::size_t purge(const PurgeScope& of_one_call);
  std::optional<ReplayRecord> read(const std::string& topic, const ReplayEntry& entry);
  std::vector<ReplayRecord> read_all(const std::string& topic, const std::vector<ReplayEntry>& entries);

  ReplayOptions options;
  std::map<std::string, Reservoir> topics;
  std::uint64_t last_sequence = 0;
  NewestStored newest{wall_us()};  // creation of the newest record that was there at the start
  std::int64_t opened_us = 0;      // monotonic
  PatientClock calendar{kClockPatienceUs};
  std::uint64_t dropped = 0, expired = 0;
  std::map<std::uint64_t, std::pair<FrameHeader, FramePlace>> unfinished_purges;  // by sequence; only while opening
  std::optional<SegmentLog> log;
};

// ---- opening

void ReplayBuffer::State::open() {
  SegmentLog::Listener listener;
  listener.on_found = [this](const FrameHeader& header, const FramePlace& place) { return found(header, place); };
  listener.on_moved = [this](std::uint64_t sequence, std::uint64_t offset) {
    for (auto& [name, topic] : topics) {
      if (ReplayEntry* entry = topic.find(sequence)) entry->offset = offset;
    }
    const auto purge = unfinished_purges.find(sequence);
    if (purge != unfinished_purges.end()) purge->second.second.offset = offset;
  };
  listener.on_damaged = [this](std::uint64_t sequence) {
    for (auto& [name, topic] : topics) topic.erase(sequence);
    unfinished_purges.erase(sequence);
  };
  log.emplace(options.folder, options.segment_bytes, std::move(listener));
  // A remaining tombstone means that a purge was interrupted: complete it, which may move the other tombstones.
  while (!unfinished_purges.empty()) {
    const auto [header, place] = unfinished_purges.extract(unfinished_purges.begin()).mapped();
    bury(header, place);
  }
  for (auto& [name, topic] : topics) shrink(topic);
  log->compact_where_half_is_dead();
}

bool ReplayBuffer::State::found(const FrameHeader& header, const FramePlace& place) {
  if (!header.plausible()) return false;
  if (header.tombstone()) {
    unfinished_purges.emplace(header.sequence, std::pair(header, place));
  } else {
    if (topic_of(header.topic).find(header.sequence) != nullptr) return false;
    add(header, place);
    newest.see(header.created_us);
  }
  last_sequence = std::max(last_sequence, header.sequence);
  return true;
}

// ---- growing

Reservoir& ReplayBuffer::State::topic_of(const std::string& name) {
  return topics.try_emplace(name, options.recency_half_life_requests, kReservoirSeed).first->second;
}

void ReplayBuffer::State::add(const FrameHeader& header, const FramePlace& place) {
  ReplayEntry entry;
  entry.sequence = header.sequence;
  entry.ordinal = header.ordinal;
  entry.request = header.request;
  entry.expires_us = header.expires_us;
  entry.heldout = slip::heldout(header.group, options.heldout_share);
  entry.sampled = header.sampled();
  entry.segment = place.segment;
  entry.offset = place.offset;
  entry.bytes = place.bytes;
  topic_of(header.topic).insert(entry);
}

void ReplayBuffer::State::shrink(Reservoir& topic) {
  for (const ReplayEntry& entry : topic.evict_over(options.max_bytes_per_topic)) log->kill(place_of(entry));
}

// ---- shrinking

std::size_t ReplayBuffer::State::kill_where(const std::function<bool(const ReplayEntry&)>& doomed) {
  std::size_t n = 0;
  for (auto& [name, topic] : topics) {
    std::vector<ReplayEntry> leaving;
    for (const auto& [sequence, entry] : topic.entries()) {
      if (doomed(entry)) leaving.push_back(entry);
    }
    for (const ReplayEntry& entry : leaving) {
      log->kill(place_of(entry));
      topic.erase(entry.sequence);
    }
    n += leaving.size();
  }
  return n;
}

void ReplayBuffer::State::expire_by(std::int64_t latest_us) {
  for (auto& [name, topic] : topics) {
    for (const auto& [sequence, entry] : topic.entries()) {
      if (entry.expires_us > latest_us) topic.find(sequence)->expires_us = latest_us;
    }
  }
}

void ReplayBuffer::State::bury(const FrameHeader& tombstone, const FramePlace& place) {
  const auto found = log->sequences_in(tombstone.scope(), tombstone.sequence);
  const std::set<std::uint64_t> doomed(found.begin(), found.end());
  kill_where([&](const ReplayEntry& entry) { return doomed.contains(entry.sequence); });
  log->erase_traces(tombstone, place);
}

// Writes a tombstone first, so that an interrupted purge is completed at the next start. If no frame is in the scope
// and all bytes were read, it writes none.
std::size_t ReplayBuffer::State::purge(const PurgeScope& of_one_call) {
  const std::size_t n = log->sequences_in(of_one_call, last_sequence + 1).size();
  if (n == 0 && !log->has_unread()) return 0;
  const auto frame = encode_tombstone(of_one_call, last_sequence + 1, wall_us());
  const auto header = parse_frame(frame);
  SLIP_CHECK(header.has_value(), "what encode_tombstone writes, parse_frame reads");
  const FramePlace place = log->append(frame, *header);
  last_sequence = header->sequence;
  log->sync();
  bury(*header, place);
  return n;
}

// ---- reading

std::optional<ReplayRecord> ReplayBuffer::State::read(const std::string& topic, const ReplayEntry& entry) {
  auto record = decode_record(log->read(place_of(entry)));
  if (record && record->sequence == entry.sequence && record->topic == topic) return record;
  ++dropped;  // damaged on disk since the start
  log->warn_unreadable(entry.segment);
  log->kill(place_of(entry));
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

// ---- the public interface

ReplayBuffer::ReplayBuffer(ReplayOptions options) {
  check_options(options);
  state_ = std::make_unique<State>(std::move(options));
  state_->open();
  const std::int64_t wall = wall_us(), now = monotonic_us();
  state_->opened_us = now;
  state_->calendar.continue_from(state_->newest.us(), now);
  expire(wall, now);
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
  if (record.topic.empty() || record.topic.size() > kMaxTopicNameBytes) {
    throw Error(ErrorCode::kInvalidArgument, "a topic's name has 1 to 48 characters", {}, "topic");
  }
  if (record.created_us == 0) record.created_us = wall_us();
  if (record.expires_us == 0) record.expires_us = record.created_us + state.options.ttl_us;
  record.sequence = state.last_sequence + 1;
  Reservoir& topic = state.topic_of(record.topic);
  const auto frame = encode_record(record, topic.next_ordinal());
  const bool too_large = frame.size() > state.options.max_bytes_per_topic ||
                         frame.size() > FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes;
  if (too_large) {
    ++state.dropped;
    return state.last_sequence = record.sequence;
  }
  const auto header = parse_frame(frame);
  SLIP_CHECK(header.has_value(), "what encode_record writes, parse_frame reads");
  const FramePlace place = state.log->append(frame, *header);
  state.last_sequence = record.sequence;  // it is on the disk, even if there is no memory for its entry
  state.add(*header, place);
  state.shrink(topic);
  state.log->compact_where_half_is_dead();
  return record.sequence;
}

void ReplayBuffer::sync() {
  state_->log->sync();
}

std::vector<ReplayRecord> ReplayBuffer::sample(const std::string& topic, std::size_t n, std::uint64_t seed,
                                               std::uint64_t draw, std::uint64_t newest) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return {};
  return state_->read_all(topic, found->second.sample(n, seed, draw, newest));
}

bool ReplayBuffer::holds_out(std::uint64_t group) const {
  return slip::heldout(group, state_->options.heldout_share);
}

void ReplayBuffer::visit_newest_of_clients(const std::string& topic, std::size_t limit,
                                           const std::function<void(ReplayRecord&)>& visit) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return;
  for (const ReplayEntry& entry : found->second.newest(limit, [](const ReplayEntry& one) { return !one.sampled; })) {
    if (auto record = state_->read(topic, entry)) visit(*record);
  }
}

std::vector<ReplayRecord> ReplayBuffer::heldout(const std::string& topic, std::size_t limit,
                                                std::uint64_t newest) const {
  const auto found = state_->topics.find(topic);
  if (found == state_->topics.end()) return {};
  const auto is_wanted = [&](const ReplayEntry& entry) { return entry.heldout && entry.sequence <= newest; };
  return state_->read_all(topic, found->second.newest(limit, is_wanted));
}

std::size_t ReplayBuffer::purge(const PurgeScope& scope) {
  std::size_t n = 0;
  // A tombstone has room for one call.
  if (scope.any_call() || scope.name != NameHash{}) n = state_->purge({{}, scope.tenant, scope.before_us, scope.name});
  for (const RequestId call : scope.calls) n += state_->purge({{call}, scope.tenant, scope.before_us});
  const auto foreign = state_->log->foreign_files();
  if (foreign.empty()) return n;
  refuse_foreign(foreign.front());
}

std::size_t ReplayBuffer::expire(std::int64_t wall_us, std::int64_t monotonic_us) {
  const std::int64_t now_us = state_->calendar.believe(wall_us, monotonic_us);
  const bool has_lasted = now_us == wall_us && monotonic_us - state_->opened_us >= kClockPatienceUs;
  // Records dated by a clock that was ahead must not outlive the others.
  if (has_lasted) state_->expire_by(now_us + state_->options.ttl_us);
  const std::size_t n = state_->kill_where([&](const ReplayEntry& entry) { return entry.expires_us <= now_us; });
  state_->expired += n;
  if (n > 0) state_->log->compact_where_half_is_dead();
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
  const SegmentLog::Figures figures = state_->log->figures();
  stats.dead_bytes = figures.dead_bytes;
  stats.torn_bytes = figures.torn_bytes;
  stats.dropped = state_->dropped + figures.damaged;
  stats.expired = state_->expired;
  return stats;
}

}  // namespace slip
