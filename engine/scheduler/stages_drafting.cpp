// SPDX-License-Identifier: Apache-2.0
// What the steps know about drafting: how much is proposed for each sequence, by what, and which sequences drafts read.
#include <algorithm>
#include <numeric>

#include "common/clock.h"
#include "common/log.h"
#include "engine/contain.h"
#include "engine/scheduler/stages.h"

namespace slip {
namespace {

constexpr int kStepsBetweenReports = 16;
constexpr std::int32_t kManyPromptRows = 64;        // take most of a pass's time
constexpr std::int32_t kBackgroundPromptRows = 16;  // a request that comes waits for the running step
constexpr double kKeepMeanTokens = 0.1;             // weight of the latest step
constexpr int kPriorSteps = 8;  // steps of its own with which a sequence counts as much as the others

}  // namespace

// ---- choose

// What the proposer can do for a sequence; returns its ready_depth(). It reads new tokens here. If it fails, its
// sequence goes on without proposals.
std::int32_t Engine::State::look_ahead(std::size_t i) {
  Part& part = parts_[i];
  std::int32_t depth = 0;
  const auto failure = contain([&] {
    depth = proposer->ready_depth(part.ref);
    part.guesses = proposer->guesses(part.ref);
  });
  if (!failure) {
    if (running[i]->request.propose_by == ProposeBy::kDraft) part.guesses.tokens = {};
    return running[i]->request.propose_by == ProposeBy::kPromptLookup ? 0 : depth;
  }
  log_parts(LogLevel::kError, {"drafting failed, a request goes on without drafts: ", failure->what()});
  proposer->release(running[i]->request.id);
  running[i]->drafting = false;
  return 0;
}

// Of a decoding sequence.
DraftOutlook Engine::State::outlook_of(std::size_t i) {
  const Part& part = parts_[i];
  const SequenceLoad& load = loads_[i];
  const std::int32_t most = std::max(0, std::min(load.k_wanted, load.remaining - 1));
  DraftOutlook outlook = estimates_.outlook(part.ref, part.guesses, most, load.ready_depth);
  outlook.sequence = i;
  outlook.width = running[i]->request.tree.most_choices();
  if (!deadlines_.empty()) {
    outlook.deadline = deadlines_[i];
    outlook.worth = worth_of_token(deadlines_[i], forecast_);
  }
  return outlook;
}

// A sequence that has just begun tells nothing itself.
void Engine::State::learn_mean_tokens() {
  std::int64_t tokens = 0, steps = 0;
  for (const auto& one : running) {
    if (one->figures.steps <= 1) continue;
    tokens += one->figures.output_tokens - 1;
    steps += one->figures.steps - 1;
  }
  if (steps == 0) return;
  const double mean = std::max(1.0, static_cast<double>(tokens) / static_cast<double>(steps));
  mean_tokens_ += kKeepMeanTokens * (mean - mean_tokens_);
}

DeadlineLoad Engine::State::deadline_of(std::size_t i, std::int64_t now_us) const {
  const RequestFigures& figures = running[i]->figures;
  DeadlineLoad load;
  const bool has_begun = figures.first_token_us > 0;
  const std::int64_t ttft_us = has_begun ? figures.first_token_us - figures.submitted_us : 0;
  load.slo = planned_targets(running[i]->request.slo, ttft_us, running[i]->request.max_tokens);
  load.n_pending = loads_[i].n_pending;
  load.since_us = now_us - (has_begun ? figures.first_token_us : figures.submitted_us);
  load.n_done = std::max(0, figures.output_tokens - 1);
  load.remaining = running[i]->remaining();
  const int steps = std::max(0, figures.steps - 1);
  load.tokens_per_step = std::max(1.0, (load.n_done + kPriorSteps * mean_tokens_) / (steps + kPriorSteps));
  if (has_begun && load.n_pending > 1) load.since_us = load.slo.ttft_us = 0;
  return load;
}

// The rows of prompts that this step may read if no request has a target. Running answers wait for a step, so it takes
// bounded time; but where requests wait for a place, reading fast matters more. While the time of decoding is unknown
// the bound is no less than what is measured.
std::int32_t Engine::State::most_prompt_rows() const {
  if (runs_background()) return std::min(kBackgroundPromptRows, options.prefill_chunk);
  const bool decodes = std::any_of(loads_.begin(), loads_.end(), [](const auto& load) { return load.n_pending == 1; });
  if (options.prefill_ms == 0 || !decodes || figures_.n_waiting > 0) return options.prefill_chunk;
  const std::int32_t rows = prompt_pace_.rows_within(1e3 * options.prefill_ms, options.prefill_chunk);
  return estimates_.knows_times() ? rows : std::max(rows, std::min(kManyPromptRows, options.prefill_chunk));
}

// Limits this step for the sake of targets: its rows of prompts, and the sequences that have a part in it.
void Engine::State::look_at_deadlines() {
  prompt_limit_ = most_prompt_rows();
  deadlines_.clear();
  const bool any = std::any_of(running.begin(), running.end(), [](const auto& one) { return one->request.slo.any(); });
  if (!options.deadlines || !any || !estimates_.knows_times()) return;
  const std::int64_t now_us = monotonic_us();
  learn_mean_tokens();
  std::int32_t rows = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const RequestFigures& figures = running[i]->figures;
    deadlines_.push_back(deadline_of(i, now_us));
    rows += loads_[i].n_pending == 1 ? 1 + (figures.steps > 0 ? figures.proposed / figures.steps : 0) : 0;
  }
  const StepCurve curve = estimates_.curve();
  forecast_.decode_us = curve.pass_us(rows);
  forecast_.has_queue = figures_.n_waiting > 0;
  policy->limit_step(deadlines_, forecast_, curve, options.prefill_chunk, deadline_limits_);
  prompt_limit_ = deadline_limits_.prompt_rows;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (deadline_limits_.skipped[i] != 0) loads_[i].n_pending = 0;
  }
}

// What a row of a prompt adds to a pass: at least one row would be in it without the prompt. While the time of decoding
// is unknown, as where every step reads prompts, a pass over many rows counts as the prompts' alone.
void Engine::State::learn_prompt_time() {
  const bool known = estimates_.knows_times(), decodes = figures_.verify_rows > 0;
  if (figures_.prefill_rows < (known ? 1 : kManyPromptRows)) return;
  const double decode_us = known ? estimates_.curve().pass_us(std::max(1, figures_.verify_rows)) : 0;
  const double more_us = static_cast<double>(figures_.verify_us) - decode_us;
  prompt_pace_.add(figures_.prefill_rows, more_us, decodes);
  if (!known) return;
  prompt_time_.add(figures_.prefill_rows, more_us, decodes);
  forecast_.prompt_row_us = prompt_time_.row_us();
}

void Engine::State::choose_lengths() {
  orders_.clear();
  outlooks_.clear();
  std::int32_t prompt_rows = 0, n_decoding = 0;
  for (const SequenceLoad& load : loads_) {
    prompt_rows += load.n_pending > 1 ? std::min(load.n_pending, prompt_limit_ - prompt_rows) : 0;
    n_decoding += load.n_pending == 1 ? 1 : 0;
  }
  if (options.adaptive_k && !estimates_.knows_times()) {
    // Rows beside a prompt cost arithmetic, and such a step measures nothing.
    const std::int32_t most = prompt_rows > 0 ? 0 : unmeasured_draft_length(n_decoding);
    for (SequenceLoad& load : loads_) load.k_wanted = std::min(load.k_wanted, most);
    return;
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (loads_[i].n_pending == 1) outlooks_.push_back(outlook_of(i));
  }
  const bool leased = cores != nullptr && cores->lease_asked();
  policy->choose(outlooks_, prompt_rows, estimates_.curve(leased), orders_);
  follow_orders();
}

void Engine::State::follow_orders() {
  for (std::size_t at = 0; at < outlooks_.size(); ++at) {
    const DraftOutlook& outlook = outlooks_[at];
    const DraftOrder& order = orders_[at];
    Part& part = parts_[outlook.sequence];
    part.guessed = order.length.guessed;
    part.likely_nodes = order.length.nodes;
    part.saved_us = order.saved_us;
    part.width = order.width;
    part.stop = order.stop;
    part.ref.wants_probability = order.wants_probability;
    // The same rates for its nodes as for its draft.
    const ChoiceRates* rates = order.stop.rates != nullptr ? order.stop.rates : outlook.rates;
    part.odds = part.guessed ? NodeOdds{nullptr, outlook.guesses.alpha, outlook.guesses.alpha_deeper}
                             : NodeOdds{rates, outlook.alpha, outlook.deeper()};
    loads_[outlook.sequence].k_wanted = order.most;
  }
}

bool Engine::State::wants_reading(std::size_t i) const {
  const Sequence& sequence = *running[i];
  const SequenceRef& ref = parts_[i].ref;
  if (sequence.request.propose_by) return sequence.request.propose_by == ProposeBy::kDraft;
  if (!options.adaptive_k || sequence.scout || ref.live_draft == nullptr) return true;
  return estimates_.is_worth_reading(ref);
}

// Lists what the policy decides about.
void Engine::State::list_proposed(std::size_t i) {
  const Part& part = parts_[i];
  if (policy->selects_chains()) return list_nodes(part.proposal, i, part.odds, nodes_);
  if (part.width > 1) list_siblings(part.proposal, i, part.odds, nodes_);
}

// Keeps the nodes that the policy verifies.
void Engine::State::choose_nodes() {
  nodes_.clear();
  rooms_.clear();
  std::int32_t rows = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const Part& part = parts_[i];
    const std::int32_t n_chain = policy->selects_chains() ? 0 : part.proposal.chain_length();
    rows += part.plan.n_rows + n_chain;
    list_proposed(i);
    // Each node has a slot of its own in the cache.
    const std::int32_t slots = running[i]->pages.capacity_slots() - running[i]->n_tokens();
    rooms_.push_back(std::min(slots, running[i]->request.tree.nodes) - n_chain);
  }
  std::sort(nodes_.begin(), nodes_.end());
  limit_nodes(nodes_, rooms_);
  policy->select(nodes_, rows, std::min(target->max_rows(), target->max_logit_rows()) - rows);
  for (std::size_t i = 0; i < running.size(); ++i) {
    Part& part = parts_[i];
    if (part.width == 1 && !policy->selects_chains()) continue;
    kept_.clear();
    if (!policy->selects_chains()) {
      kept_.resize(static_cast<std::size_t>(part.proposal.chain_length()));
      std::iota(kept_.begin(), kept_.end(), 0);
    }
    for (const ProposedNode& node : nodes_) {
      if (node.sequence == i) kept_.push_back(node.node);
    }
    std::sort(kept_.begin(), kept_.end());
    keep_nodes(part.proposal, kept_);
  }
}

// ---- learn

// Trials of another number of threads tell nothing: they come early, and a row count measured only by a trial would
// look too expensive to be tried again.
void Engine::State::learn_lengths() {
  const auto verify_us = static_cast<double>(figures_.verify_us);
  policy->add_step(verify_us + static_cast<double>(figures_.draft_us));
  if (cores != nullptr && cores->ran_trial()) return;
  const bool leased = cores != nullptr && cores->ran_leased();
  estimates_.add_step({figures_.verify_rows, figures_.prefill_rows, verify_us, draft_passes_,
                       static_cast<double>(figures_.draft_us - read_us_), leased});
  if (cores == nullptr || leased || figures_.prefill_rows > 0 || !estimates_.knows_times()) return;
  if (++n_since_report_ < kStepsBetweenReports || outlooks_.empty()) return;
  n_since_report_ = 0;
  decode_time_.add(estimates_.curve(), outlooks_, policy->speculates() ? options.k : 0);
  cores->set_decode_time(decode_time_.time());
}

// Shares the time by rows, since sequences are read together.
void Engine::State::learn_draft_use(std::int64_t read_us) {
  if (!options.adaptive_k || !estimates_.knows_times()) return;
  const int all_rows = std::accumulate(parts_.begin(), parts_.begin() + std::ssize(running), 0,
                                       [](int sum, const Part& part) { return sum + part.rows_read; });
  for (std::size_t i = 0; i < running.size(); ++i) {
    const Part& part = parts_[i];
    if (!running[i]->drafting || part.ref.live_draft == nullptr || !part.draft_reads) continue;
    const double own_us = all_rows == 0 ? 0 : static_cast<double>(read_us) * part.rows_read / all_rows;
    estimates_.add_reading(part.ref, part.saved_us, own_us);
  }
}

}  // namespace slip
