// SPDX-License-Identifier: Apache-2.0
#include "ledger/ledger.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "common/lock_free_inbox.h"
#include "common/log.h"
#include "common/owner_calls.h"
#include "common/patient_clock.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "common/thread_priority.h"
#include "ledger/database.h"
#include "ledger/purge.h"
#include "ledger/row_writer.h"
#include "ledger/schema.h"
#include "ledger/upkeep.h"

namespace slip {
namespace {

constexpr int kLastPatienceMs = 100;  // at the end, for a lock that already timed out
constexpr std::int64_t kUpkeepIntervalUs = 60'000'000;
// A file missing for this many commit intervals counts as gone. That is two seconds. DiskSpace checks once a second, so
// it reports first when the whole directory is gone.
constexpr int kAwayIntervals = 4;
// A date a month in the future must not delete a month of rows before someone corrects it.
constexpr std::int64_t kClockPatienceUs = std::int64_t{24} * 3600 * 1'000'000;

constexpr std::uintmax_t kCheckedBytes = std::uintmax_t{256} << 20;  // checking a larger file would delay the start

void check_pages(Database& database) {
  Statement check(database, "PRAGMA quick_check(1)");
  if (check.step() && check.text(0) != "ok") database.damaged(check.text(0));
  check.reset();
}

// SQLite would treat a file of a few bytes as a new database.
void check_header(const std::filesystem::path& file) {
  constexpr std::uintmax_t kHeaderBytes = 100;
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(file, none);
  if (none || bytes == 0 || bytes >= kHeaderBytes) return;
  throw Error(ErrorCode::kDataLoss, file.string() + " is damaged: it has " + std::to_string(bytes) + " bytes",
              "restore a copy made by `slipstream ledger backup`, or move it away to begin a new one");
}

Database open_ledger(const std::filesystem::path& file) {
  check_header(file);
  Database database(file, Database::Mode::kReadWrite);
  check_ours(database);  // before the pragmas below, which write to the file
  if (database.integer("SELECT COUNT(*) FROM sqlite_master") == 0) database.execute("PRAGMA auto_vacuum = INCREMENTAL");
  if (std::filesystem::file_size(file) <= kCheckedBytes) check_pages(database);
  // secure_delete overwrites deleted rows; otherwise a purge would leave them in the file.
  // Each commit moves its pages from the WAL into the file, so that a WAL that someone deletes or overwrites beneath a
  // running service takes no more rows with it than a crash does.
  database.execute(
      "PRAGMA secure_delete = ON; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1");
  migrate(database, ledger_migrations());
  refresh_views(database);
  return database;
}

// By the time of their publication: if a draft's folder was deleted, its versions are numbered from 1 again. SQLite
// takes `version` from the row with the maximum.
std::map<std::string, std::uint64_t> newest_versions_in(const Database& database) {
  Statement statement(database, "SELECT draft, version, MAX(created_us) FROM draft_versions GROUP BY draft");
  std::map<std::string, std::uint64_t> newest;
  while (statement.step()) newest[statement.text(0)] = static_cast<std::uint64_t>(statement.integer(1));
  return newest;
}

// Looks at the last requests only, so that a start does not read a large ledger.
bool any_labelled_in(const Database& database) {
  Statement labelled(database,
                     "SELECT 1 FROM (SELECT topic_source FROM requests ORDER BY id DESC LIMIT 10000) "
                     "WHERE topic_source = 'label' LIMIT 1");
  return labelled.step();
}

// When the last request finished, by the rule of NewestStored; 0: none did. The plus keeps SQLite from sorting all rows
// by the index of that time.
std::int64_t newest_us_in(const Database& database, std::int64_t wall_us) {
  Statement newest(database, "SELECT finished_us FROM requests WHERE +finished_us <= ? ORDER BY id DESC LIMIT 1");
  newest.bind_all(wall_us);
  return newest.step() ? newest.integer(0) : 0;
}

}  // namespace

struct Ledger::State {
  explicit State(LedgerOptions wanted)
      : options(std::move(wanted)), inbox(options.queue_rows), database(open_ledger(options.file)), writer(database) {
    sqlite3_busy_timeout(database.get(), options.lock_patience_ms);
    calendar.continue_from(newest_us_in(database, wall_us()), monotonic_us());
  }

  void run();
  bool is_named() const { return opened && identity_at(options.file) == opened; }
  bool in_place() const { return !cut && is_named() && database.is_whole(); }
  bool may_write();
  void stay_away();
  void write_pending();
  void observe_pending();
  void wake_for_call();
  void write_all_pending();
  std::uint64_t purge(const PurgeScope& scope);
  bool empty_wal();
  void commit(const LockFreeInbox<LedgerRow>::Batch& rows);
  void write_or_drop(const LedgerRow& row);
  void keep_small_when_due();
  void report_failure(const std::exception& error) noexcept;
  void say_dropped(std::uint64_t dropped) const;
  void report_lost() noexcept;
  bool paused() const { return options.disk && options.disk->pauses(); }

  const LedgerOptions options;
  LockFreeInbox<LedgerRow> inbox;
  std::atomic<std::uint64_t> n_dropped{0};

  Database database;  // from here to `thread`: used only by the writer once it runs
  // SQLite keeps using this file, even if it is renamed
  const std::optional<FileIdentity> opened = identity_at(options.file);
  const std::map<std::string, std::uint64_t> newest_versions = newest_versions_in(database);  // by draft, when opened
  const bool any_labelled = any_labelled_in(database);
  const std::string away_text = database.name() + " was deleted, moved, replaced or cut";
  RowWriter writer;
  std::int64_t away_since_us = 0;  // monotonic; 0: the file is in place
  std::atomic<bool> gone{false};   // missing for kAwayIntervals
  bool cut = false;  // in its place, but not whole: SQLite's pages in memory no longer fit to what may be put there
  LockFreeInbox<LedgerRow>::Batch pending;  // kept while writing fails
  std::vector<LedgerRow> alarms;            // drift events that were raised by requests in `pending`, likewise
  std::uint64_t n_dropped_stored = 0;
  std::int64_t next_upkeep_us = 0;  // monotonic; the first upkeep runs soon after the start
  PatientClock calendar{kClockPatienceUs};
  std::atomic<bool> failing{false};
  std::string last_failure;      // empty unless writing fails
  bool wal_holds_purged = true;  // true at start: a crash may have interrupted a purge

  std::mutex mutex;
  std::condition_variable wake, done;
  std::uint64_t flushes_wanted = 0, flushes_done = 0;
  bool closing = false;
  bool called = false;
  OwnerCalls calls{[this] { wake_for_call(); }};
  std::thread thread;
};

void Ledger::State::run() {
  name_thread("ledger");
  set_nice(kLowestNice);
  prepare_thread_memory();
  calls.begin();
  while (true) {
    std::uint64_t flush = 0;
    bool last = false;
    {
      std::unique_lock lock(mutex);
      wake.wait_for(lock, std::chrono::microseconds(options.commit_interval_us),
                    [&] { return closing || flushes_wanted > flushes_done || called; });
      called = false;
      flush = flushes_wanted;
      last = closing;
    }
    database.keep_index_whole();
    if (last && failing) sqlite3_busy_timeout(database.get(), kLastPatienceMs);
    // The last write also goes to a missing file, which may only have been moved. After it, a cut file may be as long
    // as before.
    cut |= last && is_named() && !database.is_whole();
    if ((last && !cut) || may_write()) write_pending();
    {
      const std::lock_guard lock(mutex);
      flushes_done = flush;
    }
    done.notify_all();
    calls.serve();
    if (last) break;
    if (wal_holds_purged) empty_wal();
    keep_small_when_due();
  }
  report_lost();
  calls.end();
}

// False while the file is missing from its path. Logs when it is back.
bool Ledger::State::may_write() {
  if (paused()) return false;
  if (!in_place()) {
    stay_away();
    return false;
  }
  away_since_us = 0;
  if (gone.exchange(false)) log_parts(LogLevel::kInfo, {"ledger: ", database.name(), " is back; rows are written"});
  return true;
}

// While the file is missing, drops rows: the next start opens the file at the path, so rows written to ours would be
// lost.
void Ledger::State::stay_away() {
  if (away_since_us == 0) away_since_us = monotonic_us();
  if (monotonic_us() - away_since_us < kAwayIntervals * options.commit_interval_us) return;
  const auto late = inbox.take_all();
  n_dropped += static_cast<std::uint64_t>(std::distance(pending.begin(), pending.end()) +
                                          std::distance(late.begin(), late.end()));
  pending.clear();
  if (gone) return;
  cut = is_named();
  // Completes a moved file, and keeps SQLite from applying our WAL to the file now at the path.
  if (!cut) empty_wal();
  log_parts(LogLevel::kError,
            {"ledger: ", away_text, "; serving goes on, and rows are dropped until ",
             cut ? "a restart, before which a copy made by `slipstream ledger backup` must be put there"
                 : "that file is back in its place. A restart opens what is there by then, or begins a new one"});
  gone = true;
}

void Ledger::State::wake_for_call() {
  {
    const std::lock_guard lock(mutex);
    called = true;
  }
  wake.notify_all();
}

// Before a purge: rows that wait would be written after it, and escape it.
void Ledger::State::write_all_pending() {
  if (!in_place()) {
    throw Error(ErrorCode::kIo, "nothing was purged from the ledger: " + away_text,
                "put that file back, or restart the service, and run it again");
  }
  write_pending();
  if (!pending.empty()) {
    throw Error(ErrorCode::kIo, "nothing was purged from the ledger, which cannot be written: " + last_failure,
                "run it again once that is mended");
  }
}

std::uint64_t Ledger::State::purge(const PurgeScope& scope) {
  write_all_pending();
  const int changes_before = sqlite3_total_changes(database.get());
  const std::uint64_t n = purge_rows(database, scope);
  wal_holds_purged |= sqlite3_total_changes(database.get()) != changes_before;
  if (wal_holds_purged && !empty_wal()) {
    throw Error(ErrorCode::kUnavailable,
                "the rows are deleted, but a reader of the ledger keeps the log that holds them (ledger.db-wal)",
                "it is emptied once that reader is done, such as a report or sqlite3");
  }
  return n;
}

bool Ledger::State::empty_wal() {
  constexpr int kPatienceMs = 1000;  // wait for readers; rows wait meanwhile
  sqlite3_busy_timeout(database.get(), kPatienceMs);
  const int result = sqlite3_wal_checkpoint_v2(database.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_busy_timeout(database.get(), options.lock_patience_ms);
  wal_holds_purged = result != SQLITE_OK;
  return result == SQLITE_OK;
}

void Ledger::State::write_pending() {
  const bool left_over = !pending.empty();
  if (!left_over) pending = inbox.take_all();
  if (pending.empty() && n_dropped == n_dropped_stored) return;
  try {
    if (!left_over) observe_pending();
    commit(pending);
    pending.clear();
    if (failing.exchange(false)) log_info("ledger: writing again");
  } catch (const std::exception& error) {  // including std::bad_alloc
    return report_failure(error);
  }
  if (left_over) write_pending();  // rows that arrived meanwhile
}

// Before the first attempt to write them: a later attempt must not count a request again.
void Ledger::State::observe_pending() {
  for (const auto& row : pending) {
    if (auto alarm = writer.observe(row)) alarms.emplace_back(std::move(*alarm));
  }
}

void Ledger::State::commit(const LockFreeInbox<LedgerRow>::Batch& rows) {
  const std::uint64_t dropped = n_dropped;
  say_dropped(dropped);
  fail_point("ledger.begin");
  Transaction transaction(database);
  for (const auto& row : rows) write_or_drop(row);
  for (const auto& alarm : alarms) write_or_drop(alarm);
  writer.write_dropped(static_cast<std::int64_t>(dropped - n_dropped_stored), wall_us());
  fail_point("ledger.commit");
  transaction.commit();
  alarms.clear();
  n_dropped_stored = dropped;
  fail_point("ledger.committed");
}

// Of `dropped` in all, those that no row of the ledger counts yet.
void Ledger::State::say_dropped(std::uint64_t dropped) const {
  if (dropped <= n_dropped_stored) return;
  log_parts(LogLevel::kWarn,
            {"ledger: ", std::to_string(dropped - n_dropped_stored),
             " rows were dropped: there was no room or memory for them, or they could not be written"});
}

// A row that cannot be written is dropped, so that it does not block the others forever.
void Ledger::State::write_or_drop(const LedgerRow& row) {
  fail_point("ledger.insert");
  try {
    writer.write(row);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    n_dropped += 1;
    log_warn("ledger: a row was dropped: " + error.message());
  }
}

void Ledger::State::keep_small_when_due() {
  if (failing || monotonic_us() < next_upkeep_us || !may_write()) return;
  next_upkeep_us = monotonic_us() + kUpkeepIntervalUs;
  try {
    keep_small(database, {options.keep_requests_us, options.max_bytes}, calendar.believe(wall_us(), monotonic_us()));
  } catch (const std::exception& error) {
    report_failure(error);
  }
}

// Logs the rows that are lost because the writer has ended, or because the file it wrote to has no name any more.
void Ledger::State::report_lost() noexcept {
  const auto late = inbox.take_all();
  const auto n = std::distance(pending.begin(), pending.end()) + std::distance(late.begin(), late.end());
  if (n > 0) {
    log_parts(LogLevel::kError, {"ledger: ", std::to_string(n),
                                 " pending rows are lost: ", last_failure.empty() ? away_text : last_failure});
  }
  if (gone) say_dropped(n_dropped);
  const bool is_said = gone || (options.disk && options.disk->gone());
  if (!is_said && !in_place()) {
    log_parts(LogLevel::kError, {"ledger: ", away_text, "; unless it was moved, its rows are lost, the last ones too"});
  }
}

void Ledger::State::report_failure(const std::exception& error) noexcept {
  try {
    last_failure = error.what();
  } catch (const std::bad_alloc&) {
    last_failure.clear();
  }
  if (failing.exchange(true)) return;
  log_parts(LogLevel::kError,
            {"ledger: ", error.what(), "; serving goes on, rows wait and then drop until it can be written"});
}

Ledger::Ledger(LedgerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Ledger::~Ledger() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  if (state_->failing) return;  // the lock's holder would be waited for again
  sqlite3_wal_checkpoint_v2(state_->database.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

void Ledger::record(LedgerRow row) noexcept {
  if (!state_->inbox.push(std::move(row))) count_dropped(1);
}

void Ledger::count_dropped(std::uint64_t rows) noexcept {
  state_->n_dropped.fetch_add(rows, std::memory_order_relaxed);
}

std::map<std::string, std::uint64_t> Ledger::reconcile(std::span<const DraftVersionRow> versions) {
  std::map<std::string, std::uint64_t> lost = state_->newest_versions;
  for (const auto& version : versions) {
    const auto newest = lost.find(version.draft);
    if (newest != lost.end() && version.version >= newest->second) lost.erase(newest);
    record(version);
  }
  return lost;
}

bool Ledger::any_labelled() const {
  return state_->any_labelled;
}

void Ledger::flush() {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t mine = ++state_->flushes_wanted;
  state_->wake.notify_all();
  state_->done.wait(lock, [&] { return state_->flushes_done >= mine; });
}

std::vector<RequestId> Ledger::calls_named(const std::string& http_id, const std::optional<TenantId>& tenant) {
  return state_->calls.call([&] {
    state_->write_all_pending();
    return slip::calls_named(state_->database, http_id, tenant);
  });
}

std::vector<TenantId> Ledger::tenants_named(const std::string& name) {
  return state_->calls.call([&] {
    state_->write_all_pending();
    return slip::tenants_named(state_->database, name);
  });
}

std::uint64_t Ledger::purge(const PurgeScope& scope) {
  return state_->calls.call([&] { return state_->purge(scope); });
}

bool Ledger::failing() const {
  return state_->failing || state_->gone;
}

std::uint64_t Ledger::dropped() const {
  return state_->n_dropped;
}

}  // namespace slip
