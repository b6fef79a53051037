// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace slip {

enum class ReportKind : std::uint8_t { kDrift, kTopics, kDrafts, kRequests, kLearning, kSlo };
enum class ReportFormat : std::uint8_t { kTable, kJson, kCsv, kSvg };

struct ReportQuery {
  ReportKind kind = ReportKind::kDrift;
  ReportFormat format = ReportFormat::kTable;
  std::filesystem::path database;
  std::optional<std::int64_t> since_us;  // wall clock; nullopt: everything
  std::string topic;                     // empty: all
  std::int64_t bucket_us = 0;            // time step of `drift`; 0: derived from the span
  int width = 0;                         // columns of the table; 0: unlimited
  bool color = false;
  int limit = 50;  // rows of `requests`
};

// Render a report from the ledger's views as text. Opens the ledger read-only and prints nothing. Error{kNotFound}
// without a database, Error{kUnsupported} for a format that this report does not have.
std::string render_report(const ReportQuery& query);

}  // namespace slip
