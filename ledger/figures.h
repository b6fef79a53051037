// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/database.h"
#include "ledger/sheet.h"

namespace slip {

struct ReportScope {
  std::optional<std::int64_t> since_us;  // wall clock; nullopt: everything
  std::string topic;                     // empty: all
  std::int64_t bucket_us = 0;            // 0: derived from the span
};

// A read-only connection to a ledger of this build's format. It sees the commits of a running service. Error{kNotFound
// | kInvalidArgument | kUnsupported | kDataLoss | kIo}, each naming the file.
Database open_ledger_to_read(const std::filesystem::path& file);

// Reads the ledger's views through a read-only connection, limited to a scope. Sees the commits of a running service.
// Error{kNotFound | kDataLoss | kUnsupported}. Threads: one at a time.
class LedgerReader {
 public:
  LedgerReader(const std::filesystem::path& file, const ReportScope& scope);
  Sheet view(const std::string& name, int limit = -1) const;
  std::int64_t bucket_us() const { return bucket_us_; }
  // The first `limit` topics of all requests, whatever the scope, by name.
  std::vector<std::string> topic_names(int limit) const;

 private:
  Database database_;
  std::int64_t bucket_us_ = 0;
};

struct Interval {
  double low = 0, high = 0;
};

// A row of the view `topics`. nullopt: not measured yet.
struct TopicFigures {
  std::string topic, draft;
  std::uint64_t version = 0;
  std::int64_t requests = 0, published = 0, refused = 0, rolled_back = 0, drift_events = 0;
  std::optional<double> alpha, recent_alpha;          // as served; over the last 20 requests
  std::optional<double> alpha_same_text, base_alpha;  // both drafts on the same verified text
  std::optional<double> gain;                         // their paired difference
  std::optional<Interval> gain_interval;              // 95 %, one sample per request
  std::optional<double> version_gain;                 // the same, for the text that the current version has served
  std::optional<Interval> version_gain_interval;
  std::optional<double> accepted_length, tokens_per_s;
  // Of the accepted tokens whose proposer is known: those of the draft, of prompt lookup, and siblings of either.
  std::optional<double> draft_share, lookup_share, sibling_share;
  std::optional<double> drafted_share;  // of the steps after the first of each request, those with a proposal
};

// A row of the view `trend`.
struct TrendPoint {
  std::int64_t bucket_us = 0, requests = 0;
  std::optional<double> alpha, alpha_same_text, base_alpha;
  std::optional<double> accepted_length, length_same_text, base_length;
  std::optional<Interval> alpha_interval, length_interval;  // of the live draft, on the same text
};

struct LedgerEvent {
  std::int64_t at_us = 0;
  std::string topic, kind, reason;  // kind: publish, refuse, rollback, drift
  std::uint64_t version = 0, live_version = 0;
};

std::vector<TopicFigures> topic_figures(const LedgerReader& ledger);
std::map<std::string, std::vector<TrendPoint>> trend_by_topic(const LedgerReader& ledger);  // oldest first
std::vector<LedgerEvent> ledger_events(const LedgerReader& ledger);                         // oldest first

}  // namespace slip
