// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/report_parts.h"
#include "ledger/text_table.h"

namespace slip {
namespace {

constexpr std::size_t kSparkWidth = 16;
constexpr auto kLeft = TextTable::Align::kLeft;

std::string version_of(const SheetRow& row, const char* column) {
  return version_text(static_cast<std::uint64_t>(row.integer(column)));
}

std::string proposer_of(const SheetRow& row, const char* version) {
  return proposer_text(row.text("topic"), row.text("draft"), static_cast<std::uint64_t>(row.integer(version)));
}

std::optional<Interval> gain_interval(const SheetRow& row) {
  const auto low = row.number("gain_low"), high = row.number("gain_high");
  return low && high ? std::optional(Interval{*low, *high}) : std::nullopt;
}

std::string alpha_sparkline(const std::vector<TrendPoint>& trend) {
  std::vector<double> alphas;
  for (const auto& point : trend) {
    if (const auto alpha = point.alpha ? point.alpha : point.alpha_same_text) alphas.push_back(*alpha);
  }
  return sparkline(alphas, kSparkWidth);
}

std::string accepted_from(const TopicFigures& topic) {
  if (!topic.draft_share) return "–";
  return share_text(topic.draft_share) + " " + share_text(topic.lookup_share) + " " + share_text(topic.sibling_share);
}

std::string topics_table(const LedgerReader& ledger, const ReportQuery& query) {
  TextTable table({{"topic", kLeft},
                   {"requests"},
                   {"α"},
                   {"last 20"},
                   {"α live*"},
                   {"α base*"},
                   {"gain (95 %)", kLeft},
                   {"length"},
                   {"accepted from", kLeft},
                   {"tok/s"},
                   {"draft", kLeft},
                   {"its gain (95 %)", kLeft},
                   {"decisions", kLeft},
                   {"α over time", kLeft}});
  auto trends = trend_by_topic(ledger);
  for (const auto& topic : topic_figures(ledger)) {
    table.add({printable(topic.topic), std::to_string(topic.requests), share_text(topic.alpha),
               share_text(topic.recent_alpha), share_text(topic.alpha_same_text), share_text(topic.base_alpha),
               gain_text(topic.gain, topic.gain_interval), fixed_text(topic.accepted_length, 2), accepted_from(topic),
               fixed_text(topic.tokens_per_s, 0), proposer_text(topic.topic, topic.draft, topic.version),
               gain_text(topic.version_gain, topic.version_gain_interval), event_counts(topic),
               alpha_sparkline(trends[topic.topic])});
  }
  return table.text(query.width, query.color);
}

// The marks of a topic's events within one time step.
std::string marks_between(const std::vector<LedgerEvent>& events, const std::string& topic, std::int64_t from_us,
                          std::int64_t step_us) {
  std::string marks;
  for (const auto& event : events) {
    if (event.topic == topic && event.at_us >= from_us && event.at_us < from_us + step_us) {
      marks += event_mark(event.kind);
    }
  }
  return marks;
}

const char* time_format(std::int64_t bucket_us) {
  return bucket_us < 60'000'000 ? "%H:%M:%S" : bucket_us < 86'400'000'000 ? "%m-%d %H:%M" : "%Y-%m-%d";
}

std::string drift_table(const LedgerReader& ledger, const ReportQuery& query, const std::vector<LedgerEvent>& events) {
  TextTable table({{"topic", kLeft},
                   {"from (UTC)", kLeft},
                   {"draft", kLeft},
                   {"requests"},
                   {"α"},
                   {"α live*"},
                   {"α base*"},
                   {"gain (95 %)", kLeft},
                   {"length"},
                   {"swaps"},
                   {"decisions", kLeft}});
  const Sheet sheet = ledger.view("drift");
  std::string topic;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i), next(sheet, std::min(i + 1, sheet.rows.size() - 1));
    const std::int64_t bucket = row.integer("bucket_us");
    const bool last_of_bucket =
        i + 1 == sheet.rows.size() || next.integer("bucket_us") != bucket || next.text("topic") != row.text("topic");
    const bool first_of_topic = i == 0 || row.text("topic") != topic;
    if (first_of_topic && i > 0) table.add_rule();
    topic = row.text("topic");
    table.add({first_of_topic ? printable(topic) : "", utc_text(bucket, time_format(ledger.bucket_us())),
               proposer_of(row, "version"), std::to_string(row.integer("requests")), share_text(row.number("alpha")),
               share_text(row.number("alpha_same_text")), share_text(row.number("base_alpha")),
               gain_text(row.number("gain"), gain_interval(row)), fixed_text(row.number("accepted_length"), 2),
               std::to_string(row.integer("swaps")),
               last_of_bucket ? marks_between(events, topic, bucket, ledger.bucket_us()) : ""});
  }
  return table.text(query.width, query.color);
}

std::string drift_text(const LedgerReader& ledger, const ReportQuery& query) {
  const auto events = ledger_events(ledger);
  std::string out;
  TextTable trends({{"topic", kLeft}, {"α over time", kLeft}});
  for (const auto& [topic, trend] : trend_by_topic(ledger)) trends.add({printable(topic), alpha_sparkline(trend)});
  out += trends.text(query.width, query.color) + "\n";
  out += drift_table(ledger, query, events);
  if (!events.empty()) out += "\nDecisions (▲ published, ✕ refused, ▼ rolled back, ◆ drift):\n";
  for (const auto& event : events) {
    out += "  " + utc_text(event.at_us, "%Y-%m-%d %H:%M:%S") + "  " + event_mark(event.kind) + " " +
           printable(event.topic + " " + event_text(event)) + "\n";
  }
  return out;
}

std::string parent_text(const SheetRow& row) {
  if (row.text("origin") == "base") return "–";
  const bool own = row.text("parent_draft") == row.text("draft");
  return version_text(own ? static_cast<std::uint64_t>(row.integer("parent")) : 0);
}

std::string drafts_table(const LedgerReader& ledger, const ReportQuery& query) {
  TextTable table({{"draft", kLeft},
                   {"created (UTC)", kLeft},
                   {"version", kLeft},
                   {"parent", kLeft},
                   {"held-out α", kLeft},
                   {"predicted gain"},
                   {"realised gain"},
                   {"p"},
                   {"requests"},
                   {"why", kLeft}});
  const Sheet sheet = ledger.view("drafts");
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    const bool refused = row.text("state") == "refused";
    const bool from_canary = row.number("predicted_gain").has_value();
    const bool rolled_back = row.text("state") == "rolled back";
    const std::string mark = rolled_back ? "▼ " : "▲ ";
    const std::string why = rolled_back ? "rolled back; came with: " + row.text("reason") : row.text("reason");
    table.add(
        {printable(row.text("draft")), utc_text(row.integer("at_us"), "%m-%d %H:%M:%S"),
         refused ? "✕ refused" : mark + version_of(row, "version"), parent_text(row),
         from_canary ? share_text(row.number("alpha_before")) + " → " + share_text(row.number("alpha_after")) : "–",
         gain_text(row.number("predicted_gain"), std::nullopt), gain_text(row.number("realised_gain"), std::nullopt),
         fixed_text(row.number("p_value"), 3), refused ? "–" : std::to_string(row.integer("requests")),
         printable(why)});
  }
  return table.text(query.width, query.color);
}

std::string requests_table(const LedgerReader& ledger, const ReportQuery& query) {
  TextTable table({{"finished (UTC)", kLeft},
                   {"topic", kLeft},
                   {"by", kLeft},
                   {"draft", kLeft},
                   {"rule", kLeft},
                   {"T"},
                   {"prompt"},
                   {"output"},
                   {"steps"},
                   {"α"},
                   {"length"},
                   {"TTFT ms"},
                   {"ms/token"},
                   {"end", kLeft}});
  const Sheet sheet = ledger.view("recent_requests", query.limit);
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    const std::string first = proposer_of(row, "first_version"), last = proposer_of(row, "last_version");
    table.add({utc_text(row.integer("finished_us"), "%m-%d %H:%M:%S"), printable(row.text("topic")),
               printable(row.text("topic_source")), first == last ? last : first + "→" + last,
               printable(row.text("rule")), fixed_text(row.number("temperature"), 1),
               fixed_text(row.number("prompt_tokens"), 0), std::to_string(row.integer("output_tokens")),
               std::to_string(row.integer("steps")), share_text(row.number("alpha")),
               fixed_text(row.number("accepted_length"), 2), fixed_text(row.number("ttft_ms"), 1),
               fixed_text(row.number("tpot_ms"), 1), printable(row.text("stop_reason"))});
  }
  return table.text(query.width, query.color);
}

std::string slo_table(const LedgerReader& ledger, const ReportQuery& query) {
  const Sheet sheet = ledger.view("slo");
  if (sheet.rows.empty()) return "No request in this period asked for a speed: send `slo` or a tier with one.\n";
  TextTable table({{"topic", kLeft},
                   {"tier", kLeft},
                   {"ms/token asked"},
                   {"TTFT ms asked"},
                   {"answer ms asked"},
                   {"requests"},
                   {"met"},
                   {"tokens of these"},
                   {"ms/token"},
                   {"TTFT ms"},
                   {"answer ms"},
                   {"violation p50"},
                   {"p99"}});
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    table.add({printable(row.text("topic")), printable(row.text("slo_tier")), fixed_text(row.number("slo_tpot_ms"), 1),
               fixed_text(row.number("slo_ttft_ms"), 1), fixed_text(row.number("slo_e2e_ms"), 1),
               std::to_string(row.integer("requests")), share_text(row.number("attainment")),
               std::to_string(row.integer("goodput_tokens")), fixed_text(row.number("tpot_ms"), 1),
               fixed_text(row.number("ttft_ms"), 1), fixed_text(row.number("e2e_ms"), 1),
               fixed_text(row.number("violation_p50"), 2), fixed_text(row.number("violation_p99"), 2)});
  }
  return table.text(query.width, query.color);
}

bool explains(ReportKind kind, const std::string& term) {
  if (kind == ReportKind::kSlo || term == "violation") return kind == ReportKind::kSlo && term == "violation";
  if (term == "α") return true;
  if (term == "odds") {  // they stand in the reasons of decisions
    return kind == ReportKind::kLearning || kind == ReportKind::kDrafts || kind == ReportKind::kDrift;
  }
  if (kind == ReportKind::kLearning) return term == "same text" || term == "lag" || term == "predicted";
  if (term == "lag" || term == "predicted") return false;
  if (term == "held-out α" || term == "predicted gain" || term == "realised gain" || term == "p") {
    return kind == ReportKind::kDrafts;
  }
  if (term == "accepted from") return kind == ReportKind::kTopics;
  if (term == "length") return kind != ReportKind::kDrafts;
  return kind == ReportKind::kTopics || kind == ReportKind::kDrift;
}

std::string footnotes(const ReportQuery& query) {
  std::string out = query.color ? "\n\033[2m" : "\n";
  const bool served_too = query.kind == ReportKind::kTopics || query.kind == ReportKind::kDrift;
  for (const auto& [term, meaning] : report_definitions()) {
    if (!explains(query.kind, term)) continue;
    const bool marked = std::string_view(term) == "same text";
    out += std::string(marked ? "* " : "") + term + ": " + meaning;
    if (marked && served_too) out += "; α without * is of what was proposed while serving, past answers included";
    out += "\n";
  }
  if (query.kind == ReportKind::kDrafts) out += "▲ published, or the base draft as given; ✕ refused; ▼ rolled back\n";
  if (query.color) out += "\033[0m";
  return out;
}

std::string body(const LedgerReader& ledger, const ReportQuery& query) {
  switch (query.kind) {
    case ReportKind::kDrift:
      return drift_text(ledger, query);
    case ReportKind::kTopics:
      return topics_table(ledger, query);
    case ReportKind::kDrafts:
      return drafts_table(ledger, query);
    case ReportKind::kLearning:
      return learning_table(ledger, query);
    case ReportKind::kSlo:
      return slo_table(ledger, query);
    case ReportKind::kRequests:
      break;
  }
  return requests_table(ledger, query);
}

// A mistyped topic is one reason why there is nothing.
std::string nothing_to_show(const LedgerReader& ledger, const ReportQuery& query) {
  constexpr int kMostTopics = 64;  // of one service
  const auto topics = query.topic.empty() ? std::vector<std::string>() : ledger.topic_names(kMostTopics);
  if (topics.empty()) {
    return "No requests in this period yet: send some to `slipstream serve`" + or_ask_further_back(query) + ".\n";
  }
  std::string names;
  for (const std::string& topic : topics) names += (names.empty() ? "" : ", ") + printable(topic);
  const bool known = std::find(topics.begin(), topics.end(), query.topic) != topics.end();
  return "No requests of topic " + printable(query.topic) + " in this period: " +
         (known && query.since_us ? "ask for a longer --since.\n" : "the ledger has requests of " + names + ".\n");
}

bool has_rows(const LedgerReader& ledger, const char* view) {
  return !ledger.view(view, 1).rows.empty();
}

// The base draft is recorded at each start, so only the drafts report has something to show before the first request.
bool is_empty(const LedgerReader& ledger, const ReportQuery& query) {
  if (has_rows(ledger, "recent_requests")) return false;
  switch (query.kind) {
    case ReportKind::kTopics:
    case ReportKind::kRequests:
      return true;
    case ReportKind::kDrift:
      return !has_rows(ledger, "events");
    case ReportKind::kDrafts:
      return !has_rows(ledger, "drafts");
    case ReportKind::kLearning:
    case ReportKind::kSlo:
      break;  // have a text of their own, unless the topic may be mistyped
  }
  return !query.topic.empty() && !has_rows(ledger, "learning_topics");
}

}  // namespace

std::string report_table(const LedgerReader& ledger, const ReportQuery& query) {
  if (is_empty(ledger, query)) return nothing_to_show(ledger, query);
  const std::string text = body(ledger, query);
  const bool learned = query.kind != ReportKind::kLearning || has_rows(ledger, "learning_topics");
  return learned ? text + footnotes(query) : text;
}

}  // namespace slip
