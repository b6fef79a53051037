// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace slip {

enum class ReportKind : std::uint8_t { kDrift, kTopics, kDrafts, kRequests, kLearning };
enum class ReportFormat : std::uint8_t { kTable, kJson, kCsv, kSvg };

struct ReportQuery {
  ReportKind kind = ReportKind::kDrift;
  ReportFormat format = ReportFormat::kTable;
  std::filesystem::path database;
  std::optional<std::int64_t> since_us;  // wall clock; nothing: all there is
  std::string topic;                     // empty: all
  std::int64_t bucket_us = 0;            // drift's time step; 0: chosen from the span
  int width = 0;                         // columns of the table; 0: as many as it takes
  bool color = false;
  int limit = 50;  // rows of `requests`
};

// Opens the ledger read-only, answers from its views, prints nothing: the text is returned. Error{kNotFound} without a
// database, Error{kUnsupported} for a format that does not draw this report.
std::string render_report(const ReportQuery& query);

}  // namespace slip
