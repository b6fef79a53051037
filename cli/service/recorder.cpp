// SPDX-License-Identifier: Apache-2.0
#include "cli/service/recorder.h"

#include <algorithm>

#include "cli/process/usable_cores.h"
#include "common/clock.h"
#include "common/log.h"
#include "engine/contain.h"
#include "server/http/request_id.h"

namespace slip::cli {
namespace {

double ms(std::int64_t us) {
  return static_cast<double>(us) / 1000.0;
}

std::string name_at(const std::vector<std::string>& names, std::uint32_t index) {
  return index < names.size() ? names[index] : std::string();
}

const char* rule_name(const RequestSummary& summary) {
  if (summary.sampling.temperature <= 0) return "greedy";
  return summary.rule == AcceptanceRule::kCoupled ? "coupled" : "rejection";
}

std::vector<TestedRow> tested_rows(const RequestFigures& figures) {
  std::vector<TestedRow> rows;
  for (std::size_t position = 0; position < figures.tested_at.size(); ++position) {
    for (std::size_t by = 0; by < kProposers; ++by) {
      const auto& ranks = figures.tested_at[position][by];
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (ranks[rank].tested == 0) continue;
        rows.push_back({static_cast<int>(position), proposer_name(static_cast<ProposedBy>(by)), static_cast<int>(rank),
                        ranks[rank].tested, ranks[rank].accepted});
      }
    }
  }
  return rows;
}

// Listeners must not throw. If memory runs out, the record is lost and the loss is logged. False: it was lost.
template <class Record>
bool contained(const char* what, Record record) noexcept {
  const auto failure = contain(record);
  if (failure) log_parts(LogLevel::kError, {"not recorded: ", what, ": ", failure->what()});
  return !failure;
}

}  // namespace

bool LoadBucket::add(const StepFigures& figures, std::int64_t wall_us, EngineLoadRow& done) {
  const std::int64_t bucket = wall_us - wall_us % kBucketUs;
  // If the clock steps back, an earlier bucket opens again; the ledger adds both.
  const bool begins = bucket != row_.bucket_us;
  const bool ended = begins && close(done);
  if (begins) row_.bucket_us = bucket;
  row_.steps += 1;
  row_.committed += figures.committed;
  row_.proposed += figures.proposed;
  row_.accepted += figures.accepted;
  row_.prefill_rows += figures.prefill_rows;
  row_.verify_rows += figures.verify_rows;
  row_.busy_ms += ms(figures.step_us);
  row_.draft_ms += ms(figures.draft_us);
  row_.verify_ms += ms(figures.verify_us);
  row_.swap_ms += ms(figures.swap_us);
  row_.max_running = std::max(row_.max_running, figures.n_decoding + figures.n_prefilling);
  row_.max_waiting = std::max(row_.max_waiting, figures.n_waiting);
  return ended;
}

bool LoadBucket::close(EngineLoadRow& done) {
  if (row_.steps == 0) return false;
  done = std::exchange(row_, EngineLoadRow{});
  return true;
}

RequestRow request_row(const RequestSummary& summary, const RecordNames& names, std::int64_t wall_us) {
  const RequestFigures& figures = summary.figures;
  RequestRow row;
  row.request_id = summary.id.value;
  row.http_id = summary.name.empty() ? request_id_text(summary.id.value) : summary.name;
  row.call_id = summary.call.value;
  row.tenant = summary.tenant.value;
  row.finished_us = wall_us;
  row.topic = name_at(names.topics, summary.route.topic.value);
  row.draft = name_at(names.drafts, summary.route.topic.value);
  row.topic_source = topic_source_name(summary.route.source);
  row.first_version = figures.first_version;
  row.last_version = figures.last_version;
  row.rule = rule_name(summary);
  row.temperature = static_cast<double>(summary.sampling.temperature);
  row.stop_reason = stop_reason_name(summary.reason);
  row.prompt_tokens = figures.prompt_tokens;
  row.cached_tokens = figures.cached_tokens;
  row.output_tokens = figures.output_tokens;
  row.steps = figures.steps;
  row.proposed = figures.proposed;
  row.accepted = figures.accepted;
  row.first_rejections = figures.first_rejections;
  row.accepted_siblings = figures.accepted_siblings;
  row.slo_tpot_ms = ms(summary.slo.tpot_us);
  row.slo_ttft_ms = ms(summary.slo.ttft_us);
  row.slo_e2e_ms = ms(summary.slo.e2e_us);
  row.slo_tier = summary.slo_tier;
  row.swaps = figures.swaps;
  row.repeated_tokens = figures.repeated_tokens;
  row.total_ms = ms(figures.finished_us - figures.submitted_us);
  row.ttft_ms = measured_ttft_ms(figures);
  row.tpot_ms = measured_tpot_ms(figures);
  row.tested = tested_rows(figures);
  return row;
}

DraftVersionRow version_row(const DraftMeta& meta) {
  DraftVersionRow row;
  row.draft = meta.draft;
  row.topic = meta.topic;
  row.reason = meta.reason;
  row.weights_sha256 = meta.weights_sha256;
  row.version = meta.version;
  row.parent = meta.parent;
  row.parent_draft = parent_draft_of(meta);
  row.created_us = meta.created_us;
  row.heldout_alpha_before = meta.heldout_alpha_before;
  row.heldout_alpha = meta.heldout_alpha;
  row.p_value = meta.p_value;
  row.optimizer_steps = meta.optimizer_steps;
  row.trained_requests = meta.trained_requests;
  return row;
}

CanaryRow canary_row(const CanaryDecision& decision) {
  const CanaryVerdict& verdict = decision.verdict;
  CanaryRow row;
  row.at_us = decision.at_us;
  row.topic = decision.topic;
  row.draft = decision.draft;
  row.kind = decision.kind;
  row.reason = verdict.reason;
  row.live_version = decision.live_version;
  row.candidate_version = decision.candidate_version;
  row.train_steps = decision.train_steps;
  row.requests = verdict.requests;
  row.alpha_live = verdict.alpha_live;
  row.alpha_candidate = verdict.alpha_candidate;
  row.length_live = verdict.length_live;
  row.length_candidate = verdict.length_candidate;
  row.gain = verdict.gain;
  row.gain_low = verdict.gain_low;
  row.gain_high = verdict.gain_high;
  row.p_value = verdict.p_value;
  row.train_loss = decision.train_loss;
  return row;
}

SameTextRow same_text_row(const SameTextScore& score) {
  SameTextRow row;
  row.request_id = score.request.value;
  row.at_us = score.at_us;
  row.topic = score.topic;
  row.draft = score.draft;
  row.version = score.version;
  row.live_accepted = score.live.accepted;
  row.live_first_rejections = score.live.first_rejections;
  row.live_steps = score.live.steps;
  row.base_accepted = score.base.accepted;
  row.base_first_rejections = score.base.first_rejections;
  row.base_steps = score.base.steps;
  row.tokens = score.live.tokens;
  return row;
}

Recorder::Recorder(RecordNames names, Ledger& ledger, Metrics& metrics)
    : names_(std::move(names)), ledger_(ledger), metrics_(metrics), minutes_(usable_cores()) {}

void Recorder::add_drops(EngineLoadRow& row) {
  const std::uint64_t rows = ledger_.dropped();
  row.rows_dropped = static_cast<std::int64_t>(rows - rows_lost_);
  rows_lost_ = rows;
  row.observations_dropped = static_cast<std::int64_t>(observations_lost_.exchange(0, std::memory_order_relaxed));
}

// Records the ledger row that `make` returns. The ledger counts it as dropped if there is no memory for it.
template <class Make>
void Recorder::write_row(const char* what, Make make) noexcept {
  if (!contained(what, [&] { ledger_.record(make()); })) ledger_.count_dropped(1);
}

void Recorder::on_step(const StepFigures& figures) noexcept {
  contained("a step", [&] {
    metrics_.on_step(figures);
    EngineLoadRow done;
    if (!bucket_.add(figures, wall_us(), done)) return;
    add_drops(done);
    ledger_.record(done);
  });
}

void Recorder::on_finished(const RequestSummary& summary) noexcept {
  contained("a request's figures", [&] {
    const std::uint32_t topic = summary.route.topic.value;
    metrics_.on_request(summary,
                        {name_at(names_.topics, topic), name_at(names_.drafts, topic), summary.figures.last_version});
  });
  write_row("a request", [&] { return request_row(summary, names_, wall_us()); });
}

void Recorder::on_decision(const CanaryDecision& decision) noexcept {
  contained("a decision", [&] {
    metrics_.on_decision(decision.topic, decision.kind, decision.verdict.reason);
    metrics_.on_train_steps(decision.draft, decision.train_steps);
  });
  write_row("a decision", [&] { return canary_row(decision); });
}

void Recorder::on_published(const DraftMeta& meta) noexcept {
  write_row("a version", [&] { return version_row(meta); });
}

void Recorder::on_scored(const SameTextScore& score) noexcept {
  write_row("a score", [&] { return same_text_row(score); });
}

void Recorder::on_dropped(std::uint64_t observations) noexcept {
  observations_lost_.fetch_add(observations, std::memory_order_relaxed);
  contained("a drop", [&] { metrics_.on_dropped("observations", observations); });
}

void Recorder::on_learning(const LearningFigures& figures) noexcept {
  contained("a report of learning", [&] {
    metrics_.on_learning(figures);
    for (const auto& warning : starved_warnings(starved_, figures)) log_warn(warning);
    if (auto minute = minutes_.add(figures)) record_minute(std::move(*minute));
  });
}

void Recorder::record_minute(LearningMinutes::Minute minute) {
  if (!minute.line.empty()) log_info(minute.line);
  for (auto& row : minute.rows) ledger_.record(std::move(row));
}

void Recorder::finish() {
  record_minute(minutes_.close());
  EngineLoadRow done;
  if (!bucket_.close(done)) return;
  add_drops(done);
  ledger_.record(done);
}

}  // namespace slip::cli
