// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/output_path.h"
#include "cli/time_argument.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "ledger/report.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream report topics --db slipstream-data/ledger.db\n"
    "  slipstream report drift  --db slipstream-data/ledger.db --since 24h --topic sql\n"
    "  slipstream report drift  --db slipstream-data/ledger.db --format svg --out drift.svg\n"
    "  slipstream report topics --db slipstream-data/ledger.db --format svg --out topics.svg\n"
    "  slipstream report learning --db slipstream-data/ledger.db --since 24h\n"
    "  slipstream report learning --db slipstream-data/ledger.db --topic sql --format svg --out learning.svg\n"
    "  slipstream report requests --db slipstream-data/ledger.db --format csv --limit 1000\n"
    "The same questions in SQL: sqlite3 slipstream-data/ledger.db 'select * from topics'\n"
    "(views: topics, drift, trend, drafts, events, positions, ranks, recent_requests, learning_topics,\n"
    "learning_states, learning_trend, slo).\n"
    "learning shows whether it pays: answers that reached the learner and wait for it, optimizer steps, seconds and\n"
    "their share of the machine, loss, lag from answer to lesson, α of live and base draft, the gain predicted and\n"
    "realised, candidates with the reason for each decision, what the governor allowed or why not, and the cost.\n"
    "Reading while the service runs is fine: the report opens the ledger read-only.";

struct ReportOptions {
  ReportQuery query;
  std::string since = "all", step, out;
};

int terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
}

bool wants_color() {
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

void run_report(ReportOptions options) {
  if (options.out == "-") options.out.clear();
  if (options.since != "all") options.query.since_us = wall_us() - parse_duration_us(options.since, "--since");
  if (!options.step.empty()) options.query.bucket_us = parse_duration_us(options.step, "--step");
  if (options.out.empty()) {
    options.query.color = wants_color();
    options.query.width = terminal_width();
  } else {
    refuse_kept_file_as_output(options.out, options.query.database, "--out");
  }
  const std::string text = render_report(options.query);
  if (options.out.empty()) {
    std::cout << text << std::flush;
  } else {
    write_output_file(options.out, text);
  }
}

// CLI11's own CheckedTransformer prints the values after the names in its errors; here they are control characters.
template <class Value>
void choose(CLI::Option& option, const std::map<std::string, Value>& values, const std::string& names) {
  option.transform(CLI::Transformer(values).description(""));
  option.transform(CLI::IsMember(values).description(names));  // transforms run in reverse order
}

}  // namespace

void add_report(CLI::App& app) {
  static const std::map<std::string, ReportKind> kinds = {
      {"drift", ReportKind::kDrift},       {"topics", ReportKind::kTopics},     {"drafts", ReportKind::kDrafts},
      {"requests", ReportKind::kRequests}, {"learning", ReportKind::kLearning}, {"slo", ReportKind::kSlo}};
  static const std::map<std::string, ReportFormat> formats = {{"table", ReportFormat::kTable},
                                                              {"text", ReportFormat::kTable},
                                                              {"json", ReportFormat::kJson},
                                                              {"csv", ReportFormat::kCsv},
                                                              {"svg", ReportFormat::kSvg}};
  auto options = std::make_shared<ReportOptions>();
  auto* command = app.add_subcommand(
      "report", "Report from the ledger what the drafts learned and how much acceptance they gained");
  command->footer(kFooter);
  auto* kind = command->add_option(
      "kind", options->query.kind,
      "drift: by topic and version over time · topics: one row each · drafts: every version and refused "
      "candidate · requests: the newest · learning: its work, its cost, and why it does not train · slo: who got the "
      "speed they asked for");
  choose(*kind->required(), kinds, "{drift,topics,drafts,requests,learning,slo}");
  command->add_option("--db", options->query.database, "The ledger, <data-dir>/ledger.db")->required();
  command->add_option("--since", options->since, "How far back: 90s, 30m, 24h, 7d, 2w or all")->capture_default_str();
  command->add_option("--topic", options->query.topic, "Only this topic");
  auto* format =
      command->add_option("--format", options->query.format,
                          "Output format; svg only for drift, topics and learning; text means table [table]");
  choose(*format, formats, "{table,text,json,csv,svg}");
  command->add_option("--step", options->step, "Time step of the drift report, such as 10m [derived from --since]");
  command->add_option("--limit", options->query.limit, "Most rows of the requests report")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--out", options->out, "Output file, link, device or FIFO [standard output, also -]");
  command->callback([options] { run_report(*options); });
}

}  // namespace slip::cli
