// SPDX-License-Identifier: Apache-2.0
#include "ledger/row_writer.h"

#include <string>

#include "common/error.h"
#include "ledger/purge.h"

namespace slip {
namespace {

std::string insert_into(const std::string& table, const std::string& columns, int n_columns) {
  std::string places = "?";
  for (int i = 1; i < n_columns; ++i) places += ", ?";
  return "INSERT INTO " + table + " (" + columns + ") VALUES (" + places + ")";
}

const std::string kInsertRequest =
    insert_into("requests",
                "request_id, http_id, finished_us, topic, draft, first_version, last_version, rule, temperature, "
                "stop_reason, prompt_tokens, output_tokens, steps, proposed, accepted, first_rejections, swaps, "
                "repeated_tokens, ttft_ms, tpot_ms, total_ms, topic_source, call_id, tenant, "
                "http_id_hash, accepted_siblings, slo_tpot_ms, slo_ttft_ms, slo_e2e_ms, slo_tier, "
                "cached_tokens",
                31);
const std::string kAddToAcceptance =
    insert_into("acceptance",
                "bucket_us, bucket_width_us, topic, draft, version, position, rule, temperature_range, proposer, rank, "
                "reached, accepted, first_rejections",
                13) +
    " ON CONFLICT DO UPDATE SET reached = reached + excluded.reached, accepted = accepted + excluded.accepted, "
    "first_rejections = first_rejections + excluded.first_rejections";
const std::string kInsertSameText =
    insert_into("same_text",
                "request_id, at_us, topic, draft, version, live_accepted, live_first_rejections, live_steps, "
                "base_accepted, base_first_rejections, base_steps, tokens",
                12);
// A version that is there already stays, unless its number was used again: a store whose drafts were removed counts
// from 1 again.
const std::string kInsertVersion =
    insert_into("draft_versions",
                "draft, version, topic, parent, created_us, reason, weights_sha256, heldout_alpha_before, "
                "heldout_alpha, p_value, optimizer_steps, trained_requests, parent_draft",
                13) +
    " ON CONFLICT DO UPDATE SET topic = excluded.topic, parent = excluded.parent, created_us = excluded.created_us, "
    "reason = excluded.reason, weights_sha256 = excluded.weights_sha256, "
    "heldout_alpha_before = excluded.heldout_alpha_before, heldout_alpha = excluded.heldout_alpha, "
    "p_value = excluded.p_value, optimizer_steps = excluded.optimizer_steps, "
    "trained_requests = excluded.trained_requests, parent_draft = excluded.parent_draft "
    "WHERE excluded.created_us > created_us AND excluded.weights_sha256 <> weights_sha256";
const std::string kInsertCanary =
    insert_into("canary_decisions",
                "at_us, topic, draft, kind, reason, live_version, candidate_version, train_steps, requests, "
                "alpha_live, alpha_candidate, length_live, length_candidate, gain, gain_low, gain_high, p_value, "
                "train_loss",
                18);
const std::string kInsertDrift =
    insert_into("drift_events", "at_us, topic, draft, version, alpha_before, alpha_after, detail", 7);
const std::string kAddToLoad =
    insert_into("engine_load",
                "bucket_us, steps, committed, proposed, accepted, prefill_rows, verify_rows, busy_ms, draft_ms, "
                "verify_ms, swap_ms, max_running, max_waiting, observations_dropped, rows_dropped",
                15) +
    " ON CONFLICT DO UPDATE SET steps = steps + excluded.steps, committed = committed + excluded.committed, "
    "proposed = proposed + excluded.proposed, accepted = accepted + excluded.accepted, "
    "prefill_rows = prefill_rows + excluded.prefill_rows, verify_rows = verify_rows + excluded.verify_rows, "
    "busy_ms = busy_ms + excluded.busy_ms, draft_ms = draft_ms + excluded.draft_ms, "
    "verify_ms = verify_ms + excluded.verify_ms, swap_ms = swap_ms + excluded.swap_ms, "
    "max_running = MAX(max_running, excluded.max_running), max_waiting = MAX(max_waiting, excluded.max_waiting), "
    "observations_dropped = observations_dropped + excluded.observations_dropped, "
    "rows_dropped = rows_dropped + excluded.rows_dropped";
const std::string kInsertLearning =
    insert_into("learning",
                "at_us, topic, draft, version, covered_s, cores, requests, records_unscored, optimizer_steps, "
                "trainer_restarts, published, refused, rolled_back, training_s, scoring_s, realised_gain, "
                "records_waiting, loss, lag_s, alpha_live, alpha_base, predicted_gain, share_of_service, "
                "cost_tokens_per_s, state, last_refusal",
                26);
const std::string kInsertTenantName = insert_into("tenant_names", "name, tenant", 2) + " ON CONFLICT DO NOTHING";

}  // namespace

RowWriter::RowWriter(Database& database)
    : database_(database),
      request_(database, kInsertRequest),
      acceptance_(database, kAddToAcceptance),
      same_text_(database, kInsertSameText),
      version_(database, kInsertVersion),
      canary_(database, kInsertCanary),
      drift_(database, kInsertDrift),
      load_(database, kAddToLoad),
      learning_(database, kInsertLearning),
      tenant_name_(database, kInsertTenantName) {
  recall_streams(database);
}

// Replays recent requests into the drift monitor, so that a restart needs no new warm-up. Ignores their alarms, which
// were recorded before.
void RowWriter::recall_streams(Database& database) {
  Statement newest(database,
                   "SELECT topic, draft, rule, temperature, accepted, first_rejections FROM "
                   "(SELECT * FROM requests ORDER BY id DESC LIMIT 2000) ORDER BY id");
  while (newest.step()) {
    RequestRow row;
    row.topic = newest.text(0);
    row.draft = newest.text(1);
    row.rule = newest.text(2);
    row.temperature = newest.real(3);
    row.accepted = static_cast<int>(newest.integer(4));
    row.first_rejections = static_cast<int>(newest.integer(5));
    drift_monitor_.observe(row);
  }
}

void RowWriter::write(const LedgerRow& row) {
  std::visit([this](const auto& one) { insert(one); }, row);
}

std::optional<DriftEventRow> RowWriter::observe(const LedgerRow& row) {
  const auto* request = std::get_if<RequestRow>(&row);
  return request != nullptr ? drift_monitor_.observe(*request) : std::nullopt;
}

void RowWriter::insert(const RequestRow& row) {
  request_.run(row.request_id, row.http_id, row.finished_us, row.topic, row.draft, row.first_version, row.last_version,
               row.rule, row.temperature, row.stop_reason, row.prompt_tokens, row.output_tokens, row.steps,
               row.proposed, row.accepted, row.first_rejections, row.swaps, row.repeated_tokens, row.ttft_ms,
               row.tpot_ms, row.total_ms, row.topic_source, row.call_id == 0 ? row.request_id : row.call_id, row.tenant,
               hash_http_id(row.http_id), row.accepted_siblings, row.slo_tpot_ms, row.slo_ttft_ms, row.slo_e2e_ms,
               row.slo_tier, row.cached_tokens);
  if (sqlite3_changes(database_.get()) == 0) {
    throw Error(ErrorCode::kInvalidArgument, "a trigger that was added to the ledger ignored the row");
  }
  add_acceptance(row);
}

// A first choice that was tested but not accepted is the first rejection of its step.
void RowWriter::add_acceptance(const RequestRow& row) {
  const std::int64_t bucket = row.finished_us / kAcceptanceBucketUs * kAcceptanceBucketUs;
  const std::string range = temperature_range(row.temperature);
  for (const TestedRow& one : row.tested) {
    if (one.reached <= 0) continue;
    acceptance_.run(bucket, kAcceptanceBucketUs, row.topic, row.draft, row.last_version, one.position, row.rule, range,
                    one.proposer, one.rank, one.reached, one.accepted, one.rank == 0 ? one.reached - one.accepted : 0);
  }
}

void RowWriter::insert(const SameTextRow& row) {
  same_text_.run(row.request_id, row.at_us, row.topic, row.draft, row.version, row.live_accepted,
                 row.live_first_rejections, row.live_steps, row.base_accepted, row.base_first_rejections,
                 row.base_steps, row.tokens);
}

void RowWriter::insert(const DraftVersionRow& row) {
  version_.run(row.draft, row.version, row.topic, row.parent, row.created_us, row.reason, row.weights_sha256,
               row.heldout_alpha_before, row.heldout_alpha, row.p_value, row.optimizer_steps, row.trained_requests,
               row.parent_draft);
}

void RowWriter::insert(const CanaryRow& row) {
  canary_.run(row.at_us, row.topic, row.draft, row.kind, row.reason, row.live_version, row.candidate_version,
              row.train_steps, row.requests, row.alpha_live, row.alpha_candidate, row.length_live, row.length_candidate,
              row.gain, row.gain_low, row.gain_high, row.p_value, row.train_loss);
}

void RowWriter::insert(const DriftEventRow& row) {
  drift_.run(row.at_us, row.topic, row.draft, row.version, row.alpha_before, row.alpha_after, row.detail);
}

void RowWriter::insert(const EngineLoadRow& row) {
  add_load(row, /*rows_dropped=*/0);
}

void RowWriter::insert(const LearningRow& row) {
  learning_.run(row.at_us, row.topic, row.draft, row.version, row.covered_s, row.cores, row.requests,
                row.records_unscored, row.optimizer_steps, row.trainer_restarts, row.published, row.refused,
                row.rolled_back, row.training_s, row.scoring_s, row.realised_gain, row.records_waiting, row.loss,
                row.lag_s, row.alpha_live, row.alpha_base, row.predicted_gain, row.share_of_service,
                row.cost_tokens_per_s, row.state, row.last_refusal);
}

void RowWriter::add_load(const EngineLoadRow& row, std::int64_t rows_dropped) {
  load_.run(row.bucket_us, row.steps, row.committed, row.proposed, row.accepted, row.prefill_rows, row.verify_rows,
            row.busy_ms, row.draft_ms, row.verify_ms, row.swap_ms, row.max_running, row.max_waiting,
            row.observations_dropped, rows_dropped);
}

void RowWriter::write_dropped(std::int64_t rows, std::int64_t now_us) {
  if (rows == 0) return;
  EngineLoadRow row;
  row.bucket_us = now_us / kAcceptanceBucketUs * kAcceptanceBucketUs;
  add_load(row, rows);
}

void RowWriter::insert(const TenantNameRow& row) {
  tenant_name_.run(row.name, row.tenant.value);
}

}  // namespace slip
