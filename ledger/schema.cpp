// SPDX-License-Identifier: Apache-2.0
#include "ledger/schema.h"

#include <array>

#include "common/error.h"

namespace slip {
namespace {

constexpr std::array<const char*, 9> kMigrations = {R"sql(
CREATE TABLE requests (
  id INTEGER PRIMARY KEY,             -- order of recording; request_id counts from 1 in each process
  request_id INTEGER NOT NULL,
  http_id TEXT NOT NULL,
  finished_us INTEGER NOT NULL,       -- microseconds since 1970, UTC, as in all tables
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  first_version INTEGER NOT NULL,
  last_version INTEGER NOT NULL,
  rule TEXT NOT NULL,                 -- rejection, coupled, greedy
  temperature REAL NOT NULL,
  stop_reason TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  steps INTEGER NOT NULL,             -- target steps that committed tokens
  proposed INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  first_rejections INTEGER NOT NULL,
  swaps INTEGER NOT NULL,             -- draft versions changed during the answer
  repeated_tokens INTEGER NOT NULL,   -- output tokens inside repeated 8-grams
  ttft_ms REAL NOT NULL,
  tpot_ms REAL NOT NULL,
  total_ms REAL NOT NULL
) STRICT;
CREATE INDEX requests_by_time ON requests(finished_us);

CREATE TABLE acceptance (
  bucket_us INTEGER NOT NULL,
  bucket_width_us INTEGER NOT NULL,   -- 10 s, after a day 10 min, after a month a day
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,          -- in the proposal, from 0
  rule TEXT NOT NULL,
  temperature_range TEXT NOT NULL,    -- 0, 0-0.5, 0.5-1, 1+
  reached INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  first_rejections INTEGER NOT NULL,
  PRIMARY KEY (bucket_us, bucket_width_us, topic, draft, version, position, rule, temperature_range)
) STRICT, WITHOUT ROWID;

CREATE TABLE same_text (              -- live and base draft scored on the same verified text, one row a request
  id INTEGER PRIMARY KEY,
  request_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,
  live_accepted REAL NOT NULL,
  live_first_rejections REAL NOT NULL,
  live_steps REAL NOT NULL,
  base_accepted REAL NOT NULL,
  base_first_rejections REAL NOT NULL,
  base_steps REAL NOT NULL,
  tokens REAL NOT NULL
) STRICT;
CREATE INDEX same_text_by_time ON same_text(at_us);

CREATE TABLE draft_versions (
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,
  topic TEXT NOT NULL,
  parent INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  reason TEXT NOT NULL,
  weights_sha256 TEXT NOT NULL,
  heldout_alpha_before REAL NOT NULL,
  heldout_alpha REAL NOT NULL,
  p_value REAL NOT NULL,
  optimizer_steps INTEGER NOT NULL,
  trained_requests INTEGER NOT NULL,
  PRIMARY KEY (draft, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE canary_decisions (
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  kind TEXT NOT NULL,                 -- publish, refuse, rollback, undecided
  reason TEXT NOT NULL,
  live_version INTEGER NOT NULL,
  candidate_version INTEGER NOT NULL,
  train_steps INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  alpha_live REAL NOT NULL,
  alpha_candidate REAL NOT NULL,
  length_live REAL NOT NULL,
  length_candidate REAL NOT NULL,
  gain REAL NOT NULL,
  gain_low REAL NOT NULL,
  gain_high REAL NOT NULL,
  p_value REAL NOT NULL,
  train_loss REAL NOT NULL
) STRICT;
CREATE INDEX canary_decisions_by_time ON canary_decisions(at_us);

CREATE TABLE drift_events (
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,
  alpha_before REAL NOT NULL,
  alpha_after REAL NOT NULL,
  detail TEXT NOT NULL
) STRICT;

CREATE TABLE engine_load (
  bucket_us INTEGER PRIMARY KEY,      -- 10 s
  steps INTEGER NOT NULL,
  committed INTEGER NOT NULL,
  proposed INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  prefill_rows INTEGER NOT NULL,
  verify_rows INTEGER NOT NULL,
  busy_ms REAL NOT NULL,
  draft_ms REAL NOT NULL,
  verify_ms REAL NOT NULL,
  swap_ms REAL NOT NULL,
  max_running INTEGER NOT NULL,
  max_waiting INTEGER NOT NULL,
  observations_dropped INTEGER NOT NULL,
  rows_dropped INTEGER NOT NULL       -- rows this ledger had to drop
) STRICT;
)sql",
                                                    R"sql(
-- Until here only labels gave a topic, and the rest was unknown.
ALTER TABLE requests ADD COLUMN topic_source TEXT NOT NULL DEFAULT 'none';  -- label, inferred, none
UPDATE requests SET topic_source = 'label' WHERE topic <> 'unknown';
)sql",
                                                    R"sql(
-- Until here a parent was a number alone. A rollback that published a version published the base draft's weights.
ALTER TABLE draft_versions ADD COLUMN parent_draft TEXT NOT NULL DEFAULT 'base';
UPDATE draft_versions SET parent_draft = draft WHERE parent > 0 AND parent < version AND reason <> 'rollback';

CREATE TABLE learning (               -- what learning did for a topic, one row a minute in which something happened
  id INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,             -- the minute's end
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,           -- that serves
  covered_s REAL NOT NULL,            -- how much time the row covers
  cores INTEGER NOT NULL,             -- that the process may use
  requests INTEGER NOT NULL,          -- from here to realised_gain: within this minute
  records_unscored INTEGER NOT NULL,  -- answers given up, since too many waited
  optimizer_steps INTEGER NOT NULL,
  trainer_restarts INTEGER NOT NULL,
  published INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  rolled_back INTEGER NOT NULL,
  training_s REAL NOT NULL,           -- of the learner's thread
  scoring_s REAL NOT NULL,
  realised_gain REAL NOT NULL,        -- of the acceptance rate, by publications
  records_waiting INTEGER NOT NULL,   -- from here on: as of the minute's end
  loss REAL NOT NULL,                 -- nats a row; 0: no step yet
  lag_s REAL NOT NULL,                -- age of the oldest answer that no step could draw from
  alpha_live REAL NOT NULL,           -- on the same text; 0: nothing scored yet
  alpha_base REAL NOT NULL,
  predicted_gain REAL NOT NULL,       -- by the learning curve, when training was last allowed
  share_of_service REAL NOT NULL,     -- what learning for all topics cost the service, 0 to 1
  cost_tokens_per_s REAL NOT NULL,    -- the same in tokens
  state TEXT NOT NULL,                -- what the governor allowed, or why it did not
  last_refusal TEXT NOT NULL
) STRICT;
CREATE INDEX learning_by_time ON learning(at_us);
)sql",
                                                    R"sql(
-- What a purge finds a call by. Until here nobody kept who had sent a request: tenant is NULL.
ALTER TABLE requests ADD COLUMN call_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN tenant INTEGER;
ALTER TABLE requests ADD COLUMN http_id_hash INTEGER;
UPDATE requests SET call_id = request_id;
CREATE INDEX requests_by_call ON requests(call_id);
CREATE INDEX requests_by_http_id ON requests(http_id_hash);
CREATE INDEX same_text_by_request ON same_text(request_id);
)sql",
                                                    R"sql(
-- Second and later choices of the draft that were accepted; `accepted` counts first choices, so that α stays theirs.
ALTER TABLE requests ADD COLUMN accepted_siblings INTEGER NOT NULL DEFAULT 0;
-- The speed that a request asked for; 0: none.
ALTER TABLE requests ADD COLUMN slo_tpot_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN slo_ttft_ms REAL NOT NULL DEFAULT 0;
)sql",
                                                    R"sql(
-- The names of API keys, by which a purge finds a tenant whose key is gone. Until here such a tenant was out of reach.
CREATE TABLE tenant_names (
  name TEXT NOT NULL,
  tenant INTEGER NOT NULL,
  PRIMARY KEY (name, tenant)
) STRICT, WITHOUT ROWID;
)sql",
                                                    R"sql(
-- The time that a request asked for its whole answer, 0: none; and the name of the speed that it asked for, '': none.
ALTER TABLE requests ADD COLUMN slo_e2e_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN slo_tier TEXT NOT NULL DEFAULT '';
)sql",
                                                    R"sql(
-- Those of the prompt's tokens that the prefix cache had.
ALTER TABLE requests ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
)sql",
                                                    R"sql(
-- What proposed the tokens, and the siblings. Until here there were first choices alone, of an unknown proposer. The
-- table is copied, since its primary key grows; not renamed, since views name it.
CREATE TABLE acceptance_before AS SELECT * FROM acceptance;
DROP TABLE acceptance;
CREATE TABLE acceptance (
  bucket_us INTEGER NOT NULL,
  bucket_width_us INTEGER NOT NULL,   -- 10 s, after a day 10 min, after a month a day
  topic TEXT NOT NULL,
  draft TEXT NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,          -- in the proposal, from 0
  rule TEXT NOT NULL,
  temperature_range TEXT NOT NULL,    -- 0, 0-0.5, 0.5-1, 1+
  proposer TEXT NOT NULL,             -- draft, prompt_lookup, unknown
  rank INTEGER NOT NULL,              -- among the choices for a place: 0 the first, others siblings
  reached INTEGER NOT NULL,           -- how often such a token was tested
  accepted INTEGER NOT NULL,
  first_rejections INTEGER NOT NULL,  -- of rank 0
  PRIMARY KEY (bucket_us, bucket_width_us, topic, draft, version, position, rule, temperature_range, proposer, rank)
) STRICT, WITHOUT ROWID;
INSERT INTO acceptance
SELECT bucket_us, bucket_width_us, topic, draft, version, position, rule, temperature_range, 'unknown', 0, reached,
       accepted, first_rejections FROM acceptance_before;
DROP TABLE acceptance_before;
)sql"};

std::string stored_text(Database& database, const std::string& view) {
  Statement statement(database, "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?");
  statement.bind_all(view);
  const std::string text = statement.step() ? statement.text(0) : "";
  statement.reset();
  return text;
}

bool views_are_current(Database& database) {
  for (const auto& view : ledger_views()) {
    if (stored_text(database, view.name) != "CREATE VIEW " + view.name + " AS " + view.select) return false;
  }
  return true;
}

}  // namespace

std::span<const char* const> ledger_migrations() {
  return kMigrations;
}

std::int64_t format_of(Database& database) {
  const std::int64_t version = database.integer("PRAGMA user_version");
  if (version >= 0) return version;
  throw Error(ErrorCode::kDataLoss, database.name() + " is damaged: its format is " + std::to_string(version),
              "restore a copy made by `slipstream ledger backup`, or move it away to begin a new one");
}

void check_ours(Database& database) {
  const std::int64_t version = format_of(database), id = database.integer("PRAGMA application_id");
  const bool empty = version == 0 && database.integer("SELECT COUNT(*) FROM sqlite_master") == 0;
  if (id == kLedgerApplicationId || empty) return;
  throw Error(ErrorCode::kPermission, database.name() + " is not a Slipstream ledger",
              "move it away to begin a new one, or use another data directory");
}

void migrate(Database& database, std::span<const char* const> steps) {
  const std::int64_t version = format_of(database);
  const auto known = static_cast<std::int64_t>(steps.size());
  if (version > known) {
    throw Error(ErrorCode::kUnsupported,
                database.name() + " has format " + std::to_string(version) + ", this build knows up to " +
                    std::to_string(known),
                "use the newer Slipstream that wrote it, or another data directory");
  }
  for (std::int64_t next = version; next < known; ++next) {
    Transaction transaction(database);
    database.execute(steps[static_cast<std::size_t>(next)]);
    database.execute("PRAGMA application_id = " + std::to_string(kLedgerApplicationId));
    database.execute("PRAGMA user_version = " + std::to_string(next + 1));
    transaction.commit();
  }
}

void refresh_views(Database& database) {
  if (views_are_current(database)) return;
  std::string script;
  for (const auto& view : ledger_views()) script += "DROP VIEW IF EXISTS main." + view.name + ";";
  for (const auto& view : ledger_views()) script += "CREATE VIEW " + view.name + " AS " + view.select + ";";
  Transaction transaction(database);
  database.execute(script);
  transaction.commit();
}

void create_temporary_views(Database& database) {
  std::string script;
  for (const auto& view : ledger_views()) {
    if (view.name != "report_scope") script += "CREATE TEMP VIEW " + view.name + " AS " + view.select + ";";
  }
  database.execute(script);
}

}  // namespace slip
