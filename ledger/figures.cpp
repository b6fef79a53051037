// SPDX-License-Identifier: Apache-2.0
#include "ledger/figures.h"

#include <fcntl.h>
#include <unistd.h>
#include <fstream>

#include "common/error.h"
#include "ledger/schema.h"

namespace slip {
namespace {

constexpr const char* kWhereItIs = "name a ledger: `slipstream serve` keeps one at <data-dir>/ledger.db";

std::string kind_of(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::directory:
      return "a directory";
    case std::filesystem::file_type::fifo:
      return "a FIFO";
    case std::filesystem::file_type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

void check_there(const std::filesystem::path& file) {
  const auto status = std::filesystem::status(file);
  if (std::filesystem::is_regular_file(status)) return;
  if (std::filesystem::exists(status)) {
    throw Error(ErrorCode::kInvalidArgument, file.string() + " is " + kind_of(status.type()) + ", not a ledger",
                kWhereItIs, "db");
  }
  throw Error(ErrorCode::kNotFound, "there is no ledger at " + file.string(), kWhereItIs, "db");
}

bool begins_as_database(const std::filesystem::path& file) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::string bytes(kMagic.size(), '\0');
  return std::ifstream(file, std::ios::binary).read(bytes.data(), std::ssize(bytes)) && bytes == kMagic;
}

bool has_wal(const std::filesystem::path& file) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(file.string() + "-wal", none);
  return !none && bytes > 0;
}

// Whether the -shm file exists or can be created; reading a WAL database needs it. Without a WAL the database file is
// complete, so it can be read directly from a read-only folder.
bool can_share(const std::filesystem::path& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  return std::filesystem::exists(file.string() + "-shm") ||
         ::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0;
}

Database open_database_to_read(const std::filesystem::path& file) {
  check_there(file);
  if (can_share(file)) return {file, Database::Mode::kReadOnly};
  if (!has_wal(file)) return {file, Database::Mode::kImmutable};
  throw Error(ErrorCode::kIo, file.string() + " has a -wal file beside it, but its folder cannot be written",
              "copy both into a folder that can", "db");
}

void check_format(Database& database, const std::filesystem::path& file) {
  const std::int64_t version = format_of(database);
  const auto known = static_cast<std::int64_t>(ledger_migrations().size());
  if (database.integer("PRAGMA application_id") != kLedgerApplicationId) {
    throw Error(ErrorCode::kInvalidArgument, file.string() + " is not a Slipstream ledger",
                "`slipstream serve` keeps one at <data-dir>/ledger.db", "db");
  }
  if (version == known) return;
  const char* hint = version > known ? "use the newer Slipstream that wrote it"
                                     : "let this `slipstream serve` open it once: it brings the tables up to date";
  throw Error(ErrorCode::kUnsupported,
              file.string() + " has format " + std::to_string(version) + ", this build reads " + std::to_string(known),
              hint, "db");
}

Cell read_cell(const Statement& statement, int column) {
  switch (statement.type(column)) {
    case SQLITE_INTEGER:
      return statement.integer(column);
    case SQLITE_FLOAT:
      return statement.real(column);
    case SQLITE_NULL:
      return std::monostate{};
    default:
      return statement.text(column);
  }
}

std::optional<Interval> interval(const SheetRow& row, const char* low, const char* high) {
  const auto from = row.number(low), to = row.number(high);
  if (!from || !to) return std::nullopt;
  return Interval{*from, *to};
}

}  // namespace

Database open_ledger_to_read(const std::filesystem::path& file) {
  Database database = open_database_to_read(file);
  try {
    check_format(database, file);
  } catch (const Error& error) {
    // Whoever mistyped a path must not be told to move that file away.
    if (error.code() != ErrorCode::kDataLoss || begins_as_database(file)) throw;
    throw Error(ErrorCode::kDataLoss, file.string() + " is no SQLite database", kWhereItIs, "db");
  }
  return database;
}

LedgerReader::LedgerReader(const std::filesystem::path& file, const ReportScope& scope)
    : database_(open_ledger_to_read(file)) {
  database_.execute(
      "PRAGMA temp_store = MEMORY; CREATE TEMP TABLE report_scope (since_us INTEGER, topic TEXT, bucket_us INTEGER)");
  const std::string span =
      "(SELECT IFNULL(MAX(finished_us) - MIN(finished_us), 0) FROM main.requests WHERE finished_us >= ?1 AND (?2 = '' "
      "OR topic = ?2))";
  Statement fill(database_, "INSERT INTO report_scope SELECT ?1, ?2, CASE WHEN ?3 > 0 THEN ?3 ELSE " +
                                bucket_for_span(span) + " END");
  fill.run(scope.since_us.value_or(0), scope.topic, scope.bucket_us);
  create_temporary_views(database_);
  bucket_us_ = database_.integer("SELECT bucket_us FROM report_scope");
}

Sheet LedgerReader::view(const std::string& name, int limit) const {
  Statement statement(database_, "SELECT * FROM " + name + " LIMIT ?");
  statement.bind_all(limit);
  Sheet sheet;
  for (int column = 0; column < statement.columns(); ++column) sheet.columns.push_back(statement.name(column));
  while (statement.step()) {
    auto& row = sheet.rows.emplace_back();
    for (int column = 0; column < statement.columns(); ++column) row.push_back(read_cell(statement, column));
  }
  return sheet;
}

std::vector<std::string> LedgerReader::topic_names(int limit) const {
  Statement statement(database_, "SELECT DISTINCT topic FROM main.requests ORDER BY topic LIMIT ?");
  statement.bind_all(limit);
  std::vector<std::string> names;
  while (statement.step()) names.push_back(statement.text(0));
  return names;
}

std::vector<TopicFigures> topic_figures(const LedgerReader& ledger) {
  const Sheet sheet = ledger.view("topics");
  std::vector<TopicFigures> topics;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    TopicFigures one;
    one.topic = row.text("topic");
    one.draft = row.text("draft");
    one.version = static_cast<std::uint64_t>(row.integer("version"));
    one.requests = row.integer("requests");
    one.published = row.integer("published");
    one.refused = row.integer("refused");
    one.rolled_back = row.integer("rolled_back");
    one.drift_events = row.integer("drift_events");
    one.alpha = row.number("alpha");
    one.recent_alpha = row.number("recent_alpha");
    one.alpha_same_text = row.number("alpha_same_text");
    one.base_alpha = row.number("base_alpha");
    one.gain = row.number("gain");
    one.gain_interval = interval(row, "gain_low", "gain_high");
    one.version_gain = row.number("version_gain");
    one.version_gain_interval = interval(row, "version_gain_low", "version_gain_high");
    one.accepted_length = row.number("accepted_length");
    one.tokens_per_s = row.number("tokens_per_s");
    one.draft_share = row.number("draft_share");
    one.lookup_share = row.number("lookup_share");
    one.sibling_share = row.number("sibling_share");
    one.drafted_share = row.number("drafted_share");
    topics.push_back(std::move(one));
  }
  return topics;
}

std::map<std::string, std::vector<TrendPoint>> trend_by_topic(const LedgerReader& ledger) {
  const Sheet sheet = ledger.view("trend");
  std::map<std::string, std::vector<TrendPoint>> trends;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    TrendPoint point;
    point.bucket_us = row.integer("bucket_us");
    point.requests = row.integer("requests");
    point.alpha = row.number("alpha");
    point.alpha_same_text = row.number("alpha_same_text");
    point.base_alpha = row.number("base_alpha");
    point.alpha_interval = interval(row, "alpha_low", "alpha_high");
    point.accepted_length = row.number("accepted_length");
    point.length_same_text = row.number("length_same_text");
    point.base_length = row.number("base_length");
    point.length_interval = interval(row, "length_low", "length_high");
    trends[row.text("topic")].push_back(point);
  }
  return trends;
}

std::vector<LedgerEvent> ledger_events(const LedgerReader& ledger) {
  const Sheet sheet = ledger.view("events");
  std::vector<LedgerEvent> events;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    events.push_back({row.integer("at_us"), row.text("topic"), row.text("kind"), row.text("reason"),
                      static_cast<std::uint64_t>(row.integer("version")),
                      static_cast<std::uint64_t>(row.integer("live_version"))});
  }
  return events;
}

}  // namespace slip
