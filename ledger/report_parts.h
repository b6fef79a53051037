// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ledger/figures.h"
#include "ledger/report.h"

namespace slip {

// The parts of render_report(), which opens the ledger: tables, SVG drawings, and the formats of figures.
std::string report_table(const LedgerReader& ledger, const ReportQuery& query);
std::string drift_svg(const LedgerReader& ledger);
std::string topics_svg(const LedgerReader& ledger);
std::string learning_table(const LedgerReader& ledger, const ReportQuery& query);
std::string learning_svg(const LedgerReader& ledger);

// The terms of all reports with their definitions, printed below tables and included in JSON, since other tools define
// α differently.
std::span<const std::pair<const char*, const char*>> report_definitions();

std::string version_text(std::uint64_t version);  // "v3"; 0 is "base"
// What proposed for requests of `topic`, by the ledger's name for it: a topic's draft has the topic's name, so its
// version; "prompt_lookup"; "–": nothing proposed.
std::string proposer_text(const std::string& topic, const std::string& draft, std::uint64_t version);
const char* event_mark(const std::string& kind);      // publish ▲, refuse ✕, rollback ▼, drift ◆
std::string event_text(const LedgerEvent& event);     // "v3 → v4 published: …"
std::string event_counts(const TopicFigures& topic);  // "▲3 ✕1": 3 published, 1 refused; "–": no events
// The name, cut to 20 characters to fit its column; names may have up to 48.
std::string short_topic(const std::string& name);
std::string share_text(std::optional<double> share);                                  // ".71"; "–" for nullopt
std::string gain_text(std::optional<double> gain, std::optional<Interval> interval);  // "+.19 [+.15, +.23]"
std::string fixed_text(std::optional<double> value, int digits);                      // "–" for nullopt
std::string utc_text(std::int64_t us, const char* format);  // `us`: since 1970, UTC; `format`: strftime's
// Ends a sentence about an empty report: another --since helps only where one was given.
std::string or_ask_further_back(const ReportQuery& query);
// The text with each control character replaced by U+FFFD, so that a name cannot control a terminal.
std::string printable(const std::string& text);

}  // namespace slip
