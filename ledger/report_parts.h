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

// The parts of render_report().
std::string report_table(const LedgerReader& ledger, const ReportQuery& query);
std::string drift_svg(const LedgerReader& ledger);
std::string topics_svg(const LedgerReader& ledger);
std::string learning_table(const LedgerReader& ledger, const ReportQuery& query);
std::string learning_svg(const LedgerReader& ledger);

// Terms and meanings, printed below tables and included in JSON, since other tools define α differently.
std::span<const std::pair<const char*, const char*>> report_definitions();

std::string version_text(std::uint64_t version);      // "v3"; 0 is "base"
const char* event_mark(const std::string& kind);      // ▲ published, ✕ refused, ▼ rolled back, ◆ drift
std::string event_text(const LedgerEvent& event);     // "v3 → v4 published: …"
std::string event_counts(const TopicFigures& topic);  // "▲3 ✕1", "–" for none
// A name cut to fit the column; names may have up to 48 letters.
std::string short_topic(const std::string& name);
std::string share_text(std::optional<double> share);                                  // ".71", "–" for nothing
std::string gain_text(std::optional<double> gain, std::optional<Interval> interval);  // "+.19 [+.15, +.23]"
std::string fixed_text(std::optional<double> value, int digits);                      // "–" for nothing
std::string utc_text(std::int64_t us, const char* format);                            // strftime
// The text with control characters replaced by pictures (␀ …), so that a name cannot control a terminal.
std::string printable(const std::string& text);

}  // namespace slip
