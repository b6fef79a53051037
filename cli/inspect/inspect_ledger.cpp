// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/inspection.h"
#include "common/error.h"
#include "ledger/database.h"
#include "ledger/figures.h"
#include "ledger/report_parts.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTables[] = {"requests",         "acceptance",   "same_text",   "draft_versions",
                                   "canary_decisions", "drift_events", "engine_load", "learning"};

Cell time_of(Database& database, const char* which) {
  Statement time(database, std::string("SELECT ") + which + "(finished_us) FROM requests");
  const bool some = time.step() && !time.is_null(0);
  const Cell cell = some ? Cell(utc_text(time.integer(0), "%Y-%m-%dT%H:%M:%SZ")) : Cell();
  time.reset();
  return cell;
}

Sheet columns_of(const Sheet& sheet, const std::vector<std::string>& columns) {
  Sheet some{.columns = columns};
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    auto& row = some.rows.emplace_back();
    for (const auto& column : columns) row.push_back(SheetRow(sheet, i).cell(column.c_str()));
  }
  return some;
}

}  // namespace

Inspection inspect_ledger(const fs::path& file) {
  Inspection found{.kind = "ledger"};
  Database database = open_ledger_to_read(file);
  found.add("format", database.integer("PRAGMA user_version"));
  found.add("bytes", static_cast<std::int64_t>(fs::file_size(file)));
  std::error_code none;
  const auto wal = fs::file_size(file.string() + "-wal", none);
  found.add("wal bytes", none ? 0 : static_cast<std::int64_t>(wal));
  // As a backup does: a quick check does not compare the indexes with their tables.
  Statement check(database, "PRAGMA integrity_check(1)");
  const std::string integrity = check.step() ? check.text(0) : "nothing";
  check.reset();
  found.add("integrity", integrity);
  if (integrity != "ok") found.faults.push_back(file.string() + " is damaged: " + integrity);
  Statement triggers(database, "SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 8");
  while (triggers.step()) {
    found.faults.push_back(file.string() + " has a trigger, \"" + triggers.text(0) +
                           "\", which is none of Slipstream's: it may change, refuse or keep rows");
  }
  found.add("first request", time_of(database, "MIN"));
  found.add("last request", time_of(database, "MAX"));
  for (const char* table : kTables) {
    found.add(std::string("rows of ") + table, database.integer(std::string("SELECT COUNT(*) FROM ") + table));
  }
  const LedgerReader reader(file, {});
  found.tables.emplace_back(
      "topics",
      columns_of(reader.view("topics"), {"topic", "requests", "alpha", "base_alpha", "gain", "accepted_length", "draft",
                                         "version", "published", "refused", "rolled_back", "drift_events"}));
  return found;
}

}  // namespace slip::cli
