// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ledger/report_parts.h"
#include "ledger/text_table.h"

namespace slip {
namespace {

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr std::size_t kMostDecisions = 12;  // the newest; JSON's `events` has all

std::string percent(std::optional<double> share) {
  if (!share) return "–";
  return *share > 0 && *share < 0.0005 ? "<0.1 %" : fixed_text(*share * 100, 1) + " %";
}

std::string counts(const SheetRow& row) {
  TopicFigures topic;
  topic.published = row.integer("published");
  topic.refused = row.integer("refused");
  topic.rolled_back = row.integer("rolled_back");
  return event_counts(topic);
}

std::string topics(const Sheet& sheet, const ReportQuery& query) {
  TextTable table({{"topic", kLeft},
                   {"draft", kLeft},
                   {"answers"},
                   {"waiting"},
                   {"steps"},
                   {"train s"},
                   {"score s"},
                   {"machine"},
                   {"loss"},
                   {"lag s"},
                   {"α live*"},
                   {"α base*"},
                   {"predicted"},
                   {"realised"},
                   {"decisions", kLeft},
                   {"now", kLeft}});
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    const auto version = static_cast<std::uint64_t>(row.integer("version"));
    table.add({printable(row.text("topic")), proposer_text(row.text("topic"), row.text("draft"), version),
               std::to_string(row.integer("requests")), std::to_string(row.integer("records_waiting")),
               std::to_string(row.integer("optimizer_steps")), fixed_text(row.number("training_s"), 1),
               fixed_text(row.number("scoring_s"), 1), percent(row.number("share_of_machine")),
               fixed_text(row.number("loss"), 3), fixed_text(row.number("lag_s"), 1),
               share_text(row.number("alpha_live")), share_text(row.number("alpha_base")),
               gain_text(row.number("predicted_gain"), std::nullopt),
               gain_text(row.number("realised_gain"), std::nullopt), counts(row), printable(row.text("state"))});
  }
  return table.text(query.width, query.color);
}

// The rows are written once a minute, decisions when they are made.
std::string age(const Sheet& sheet) {
  std::int64_t newest_us = 0;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    newest_us = std::max(newest_us, SheetRow(sheet, i).integer("last_us"));
  }
  return "\nRows as of " + utc_text(newest_us, "%m-%d %H:%M:%S") +
         " UTC: a service adds to them once a minute, and to the candidates below at once.\n";
}

// Learning's cost is measured for all topics together, so it is read from the topic whose rows cover most of the
// period.
std::string cost(const Sheet& sheet) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < sheet.rows.size(); ++i) {
    if (SheetRow(sheet, i).integer("minutes") > SheetRow(sheet, most).integer("minutes")) most = i;
  }
  const SheetRow row(sheet, most);
  return "\nCost of learning while it ran: " + percent(row.number("share_of_service")) + " of the service, " +
         fixed_text(row.number("cost_tokens_per_s"), 1) + " tokens/s.\n";
}

std::string states(const Sheet& sheet) {
  std::map<std::string, std::string> by_topic;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    std::string& line = by_topic[row.text("topic")];
    line += (line.empty() ? "" : " · ") + printable(row.text("state")) + " " + std::to_string(row.integer("minutes"));
  }
  std::string out = "\nWhat the governor allowed, or why not (minutes):\n";
  for (const auto& [topic, line] : by_topic) out += "  " + printable(topic) + ": " + line + "\n";
  return out;
}

std::string decisions(const std::vector<LedgerEvent>& events) {
  if (events.empty()) return "\nNo candidate was decided on in this period.\n";
  std::string out = "\nCandidates (▲ published, ✕ refused, ▼ rolled back, ◆ drift):\n";
  for (std::size_t i = events.size() - std::min(events.size(), kMostDecisions); i < events.size(); ++i) {
    out += "  " + utc_text(events[i].at_us, "%m-%d %H:%M:%S") + "  " + event_mark(events[i].kind) + " " +
           printable(events[i].topic + " " + event_text(events[i])) + "\n";
  }
  return out;
}

}  // namespace

std::string learning_table(const LedgerReader& ledger, const ReportQuery& query) {
  const Sheet sheet = ledger.view("learning_topics");
  if (sheet.rows.empty()) {
    return "Nothing was learned in this period: `slipstream serve` records learning once a minute while requests "
           "come and learning.enabled is true" +
           or_ask_further_back(query) + ".\n";
  }
  return topics(sheet, query) + age(sheet) + cost(sheet) + states(ledger.view("learning_states")) +
         decisions(ledger_events(ledger));
}

}  // namespace slip
