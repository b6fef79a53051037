// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include "cli/inspection.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/replay_buffer.h"
#include "distill/segment.h"
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
  std::int64_t records = 0, tombstones = 0, torn_bytes = 0;
};

void add_frame(ReplayTotals& totals, const FrameHeader& header, std::int64_t now_us) {
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

void add_segment(Inspection& found, Sheet& segments, ReplayTotals& totals, const fs::path& path) {
  constexpr std::uint64_t kMost = ReplayOptions::kMaxSegmentBytes + FrameHeader::kMaxPayloadBytes + FrameHeader::kBytes;
  const std::string content = read_file(path, kMost);
  const SegmentScan scan = scan_segment(std::as_bytes(std::span(content)));
  const std::string name = path.filename().string();
  const auto torn =
      static_cast<std::int64_t>(content.size() - std::min<std::uint64_t>(scan.good_bytes, content.size()));
  std::string state = "ok";
  if (torn > 0) state = "torn tail";  // what a crash leaves; the next start cuts it
  if (scan.damaged_gaps > 0 || scan.gave_up) state = "damaged";
  if (scan.foreign) state = "another format";
  if (scan.damaged_gaps > 0 || scan.gave_up || scan.foreign) found.faults.push_back(path.string() + ": " + state);
  segments.rows.push_back({name, static_cast<std::int64_t>(content.size()),
                           static_cast<std::int64_t>(scan.frames.size()), torn,
                           static_cast<std::int64_t>(scan.damaged_gaps), state});
  if (!scan.foreign) totals.torn_bytes += torn;
  const std::int64_t now = wall_us();
  for (const auto& frame : scan.frames) add_frame(totals, frame.header, now);
}

std::vector<fs::path> segments_at(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::map<std::uint64_t, fs::path> numbered;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto number = segment_number(entry.path().filename().string());
    if (number && entry.symlink_status().type() == fs::file_type::regular) numbered[*number] = entry.path();
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

// As the files have it: records that were evicted and wait for compaction count too.
Inspection inspect_replay(const fs::path& path) {
  Inspection found{.kind = "replay"};
  Sheet segments{.columns = {"segment", "bytes", "frames", "torn_bytes", "damaged", "state"}};
  ReplayTotals totals;
  for (const fs::path& segment : segments_at(path)) {
    try {
      add_segment(found, segments, totals, segment);
    } catch (const Error& error) {
      found.faults.push_back(error.message());
    }
  }
  found.add("segments", static_cast<std::int64_t>(segments.rows.size()));
  found.add("records", totals.records);
  found.add("purges under way", totals.tombstones);
  found.add("torn bytes", totals.torn_bytes);
  found.tables.emplace_back("topics", topics_sheet(totals));
  found.tables.emplace_back("segments", std::move(segments));
  return found;
}

}  // namespace slip::cli
