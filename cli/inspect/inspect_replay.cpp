// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "cli/inspect/inspection.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/replay/replay_buffer.h"
#include "distill/replay/segment.h"
#include "ledger/report_parts.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

struct TopicTotals {
  std::int64_t records = 0, bytes = 0, expired = 0;
  std::int64_t oldest_us = std::numeric_limits<std::int64_t>::max(), newest_us = 0;
};

struct ReplayTotals {
  std::map<std::string, TopicTotals> topics;
  std::set<std::pair<std::string, std::uint64_t>> known;  // topic, sequence
  std::int64_t records = 0, tombstones = 0, torn_bytes = 0, damaged_records = 0, skipped = 0;
};

void add_frame(ReplayTotals& totals, const FrameHeader& header, std::int64_t now_us) {
  // Accepts the records that a service accepts at its start.
  if (!header.plausible() || (!header.tombstone() && !totals.known.emplace(header.topic, header.sequence).second)) {
    ++totals.skipped;
    return;
  }
  if (header.tombstone()) {
    ++totals.tombstones;
    return;
  }
  ++totals.records;
  TopicTotals& topic = totals.topics[header.topic];
  ++topic.records;
  topic.bytes += static_cast<std::int64_t>(header.frame_bytes);
  topic.expired += header.expires_us <= now_us ? 1 : 0;
  topic.oldest_us = std::min(topic.oldest_us, header.created_us);
  topic.newest_us = std::max(topic.newest_us, header.created_us);
}

std::string state_of(const SegmentScan& scan) {
  if (scan.foreign) return "another format";
  if (scan.damaged_records > 0 || scan.damaged_bytes > 0) return "damaged";
  return scan.torn_bytes > 0 ? "torn tail" : "ok";  // a crash leaves a torn tail; the next start truncates it
}

void add_segment(Inspection& found, Sheet& segments, ReplayTotals& totals, const fs::path& path, bool growing) {
  constexpr std::uint64_t kMost = ReplayOptions::kMaxSegmentBytes + FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes;
  if (fs::is_symlink(fs::symlink_status(path))) {
    throw Error(ErrorCode::kPermission, path.string() + " is a symbolic link, which no service follows");
  }
  const std::string content = read_file(path, kMost);
  const SegmentScan scan = scan_segment(std::as_bytes(std::span(content)), growing);
  const std::string state = state_of(scan);
  if (scan.foreign) found.faults.push_back(path.string() + ": " + state);
  if (content.empty()) {
    found.faults.push_back(path.string() + ": damaged: it is empty, and its records are lost");
  } else if (scan.damaged_bytes > 0) {
    found.faults.push_back(path.string() + ": damaged: " + std::to_string(scan.damaged_bytes) +
                           " bytes cannot be read, records lost: at least " + std::to_string(scan.damaged_records));
  }
  segments.rows.push_back({path.filename().string(), static_cast<std::int64_t>(content.size()),
                           static_cast<std::int64_t>(scan.frames.size()), static_cast<std::int64_t>(scan.torn_bytes),
                           static_cast<std::int64_t>(scan.damaged_bytes), state});
  totals.torn_bytes += static_cast<std::int64_t>(scan.torn_bytes);
  totals.damaged_records += static_cast<std::int64_t>(scan.damaged_records);
  const std::int64_t now = wall_us();
  const std::int64_t skipped_before = totals.skipped;
  for (const auto& frame : scan.frames) add_frame(totals, frame.header, now);
  const std::int64_t skipped = totals.skipped - skipped_before;
  if (skipped == 0) return;
  found.faults.push_back(path.string() + ": " + std::to_string(skipped) +
                         " records are skipped: another segment holds their numbers, or they have none");
}

// Orders the segments as a service does at its start.
std::vector<fs::path> segments_at(const fs::path& path, Inspection& found) {
  if (!fs::is_directory(path)) return {path};
  std::map<std::uint64_t, fs::path> numbered;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto number = segment_number(entry.path().filename().string());
    if (!number) continue;
    if (*number <= kMaxSegmentNumber) {
      numbered[*number] = entry.path();
    } else {
      found.faults.push_back(entry.path().string() + ": its number is over " + std::to_string(kMaxSegmentNumber) +
                             ", and no service reads it");
    }
  }
  std::vector<fs::path> paths;
  for (const auto& [number, segment] : numbered) paths.push_back(segment);
  return paths;
}

Sheet topics_sheet(const ReplayTotals& totals) {
  constexpr const char* kTime = "%Y-%m-%dT%H:%M:%SZ";
  Sheet sheet{.columns = {"topic", "records", "bytes", "expired", "oldest", "newest"}};
  for (const auto& [name, topic] : totals.topics) {
    sheet.rows.push_back({name, topic.records, topic.bytes, topic.expired, utc_text(topic.oldest_us, kTime),
                          utc_text(topic.newest_us, kTime)});
  }
  return sheet;
}

}  // namespace

// Counts records in the files, including evicted ones that wait for compaction.
Inspection inspect_replay(const fs::path& path) {
  Inspection found{.kind = "replay"};
  Sheet segments{.columns = {"segment", "bytes", "frames", "torn_bytes", "damaged_bytes", "state"}};
  ReplayTotals totals;
  const std::vector<fs::path> paths = segments_at(path, found);
  for (const fs::path& segment : paths) {
    try {
      add_segment(found, segments, totals, segment, /*growing=*/segment == paths.back());
    } catch (const Error& error) {
      found.add_error(error);
    }
  }
  found.add("segments", static_cast<std::int64_t>(segments.rows.size()));
  found.add("records", totals.records);
  found.add("purges under way", totals.tombstones);
  found.add("torn bytes", totals.torn_bytes);
  found.add("damaged records", totals.damaged_records);
  found.add("skipped records", totals.skipped);
  found.tables.emplace_back("topics", topics_sheet(totals));
  found.tables.emplace_back("segments", std::move(segments));
  return found;
}

}  // namespace slip::cli
