// SPDX-License-Identifier: Apache-2.0
// Options of a replay buffer under test, and the records that it and its files hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/file.h"
#include "distill/replay/replay_buffer.h"
#include "tests/distill/sample_records.h"

namespace slip::testing {

// Small segments, so that a few records fill several.
inline ReplayOptions options_in(const TemporaryFolder& folder) {
  ReplayOptions options;
  options.folder = folder.path() / "replay";
  options.segment_bytes = 8192;
  return options;
}

inline std::set<std::uint64_t> ids_of(const std::vector<ReplayRecord>& records) {
  std::set<std::uint64_t> ids;
  for (const ReplayRecord& record : records) ids.insert(record.request.value);
  return ids;
}

// All records of a topic, held-out ones included, in the order they were appended.
inline std::vector<ReplayRecord> all_records(const ReplayBuffer& buffer, const std::string& topic) {
  const std::size_t n = buffer.records(topic);
  std::vector<ReplayRecord> records = buffer.sample(topic, n, /*seed=*/0, /*draw=*/0);
  const std::vector<ReplayRecord> heldout = buffer.heldout(topic, n);
  records.insert(records.end(), heldout.begin(), heldout.end());
  std::sort(records.begin(), records.end(),
            [](const ReplayRecord& a, const ReplayRecord& b) { return a.sequence < b.sequence; });
  return records;
}

// Ids of all records that the buffer holds of `topic`.
inline std::set<std::uint64_t> ids_in(const ReplayBuffer& buffer, const std::string& topic = "sql") {
  return ids_of(all_records(buffer, topic));
}

// Total size of the files in `folder`.
inline std::uint64_t bytes_on_disk(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) bytes += item.file_size();
  return bytes;
}

// True if a file in `folder` holds the record's tokens as a segment stores them.
inline bool on_disk(const std::filesystem::path& folder, const ReplayRecord& record) {
  std::string needle;
  for (const std::int32_t token : record.tokens) {
    for (int byte = 0; byte < 4; ++byte) needle += static_cast<char>(token >> (8 * byte));
  }
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (read_file(item.path(), 1 << 30).find(needle) != std::string::npos) return true;
  }
  return false;
}

}  // namespace slip::testing
