// SPDX-License-Identifier: Apache-2.0
#include "ledger/report.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "ledger/report_parts.h"

namespace slip {
namespace {

using nlohmann::ordered_json;

const char* view_of(ReportKind kind) {
  switch (kind) {
    case ReportKind::kDrift:
      return "drift";
    case ReportKind::kTopics:
      return "topics";
    case ReportKind::kDrafts:
      return "drafts";
    case ReportKind::kLearning:
      return "learning_topics";
    case ReportKind::kSlo:
      return "slo";
    case ReportKind::kRequests:
      break;
  }
  return "recent_requests";
}

const char* name_of(ReportKind kind) {
  if (kind == ReportKind::kLearning) return "learning";
  return kind == ReportKind::kRequests ? "requests" : view_of(kind);
}

int limit_of(const ReportQuery& query) {
  return query.kind == ReportKind::kRequests ? query.limit : -1;
}

std::string report_json(const LedgerReader& ledger, const ReportQuery& query) {
  ordered_json out = {{"report", name_of(query.kind)}};
  out["since_us"] = query.since_us ? ordered_json(*query.since_us) : ordered_json(nullptr);
  out["topic"] = query.topic.empty() ? ordered_json(nullptr) : ordered_json(query.topic);
  out["rows"] = to_json(ledger.view(view_of(query.kind), limit_of(query)));
  if (query.kind == ReportKind::kDrift) {
    out["bucket_us"] = ledger.bucket_us();
    out["positions"] = to_json(ledger.view("positions"));
    out["ranks"] = to_json(ledger.view("ranks"));
  }
  if (query.kind == ReportKind::kDrift || query.kind == ReportKind::kTopics) {
    out["trend"] = to_json(ledger.view("trend"));
    out["events"] = to_json(ledger.view("events"));
  }
  if (query.kind == ReportKind::kLearning) {
    out["states"] = to_json(ledger.view("learning_states"));
    out["trend"] = to_json(ledger.view("learning_trend"));
    out["events"] = to_json(ledger.view("events"));
  }
  for (const auto& [term, meaning] : report_definitions()) out["definitions"][term] = meaning;
  return out.dump(/*indent=*/1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) + "\n";
}

std::string drawing(const LedgerReader& ledger, ReportKind kind) {
  if (kind == ReportKind::kLearning) return learning_svg(ledger);
  return kind == ReportKind::kTopics ? topics_svg(ledger) : drift_svg(ledger);
}

}  // namespace

std::string render_report(const ReportQuery& query) {
  const bool has_drawing =
      query.kind == ReportKind::kDrift || query.kind == ReportKind::kTopics || query.kind == ReportKind::kLearning;
  if (query.format == ReportFormat::kSvg && !has_drawing) {
    throw Error(ErrorCode::kUnsupported, std::string("there is no drawing of the report ") + name_of(query.kind),
                "drift, topics and learning have --format svg", "format");
  }
  const LedgerReader ledger(query.database, {query.since_us, query.topic, query.bucket_us});
  switch (query.format) {
    case ReportFormat::kJson:
      return report_json(ledger, query);
    case ReportFormat::kCsv:
      return to_csv(ledger.view(view_of(query.kind), limit_of(query)));
    case ReportFormat::kSvg:
      return drawing(ledger, query.kind);
    case ReportFormat::kTable:
      break;
  }
  return report_table(ledger, query);
}

}  // namespace slip
