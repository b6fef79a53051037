// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/stages.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/contain.h"
#include "engine/scheduler/select.h"

namespace slip {
namespace {

constexpr std::int64_t kLogAgainUs = 60'000'000;

// Counts a proposal's tokens by what proposed them. `path`: the accepted nodes; `rejected`: all choices for the place
// after them were wrong.
void count_proposers(const Proposal& proposal, std::span<const std::int32_t> path, bool rejected,
                     RequestFigures& counts) {
  const auto of = [&](std::size_t node) { return static_cast<std::size_t>(proposal.proposed_by[node]); };
  for (std::size_t node = 0; node < proposal.size(); ++node) counts.by_proposer[of(node)].proposed += 1;
  if (proposal.size() > 0) counts.sized_proposals[proposal.size() - 1] += 1;
  const std::size_t n_reached = path.size() + (rejected ? 1 : 0);
  if (counts.tested_at.size() < n_reached) counts.tested_at.resize(n_reached);
  for (std::size_t depth = 0; depth < n_reached; ++depth) {
    const std::int32_t parent = depth == 0 ? -1 : path[depth - 1];
    const std::size_t right = depth < path.size() ? static_cast<std::size_t>(path[depth]) : proposal.size();
    std::size_t rank = 0;
    for (std::size_t node = proposal.first_below(parent); node < proposal.size() && node <= right; ++node) {
      if (proposal.parents[node] != parent) continue;
      const bool is_right = node == right;
      ProposerFigures& by = counts.by_proposer[of(node)];
      if (rank == 0) (is_right ? by.accepted : by.first_rejections) += 1;
      if (is_right) counts.accepted_by_rank[rank] += 1;
      TestedTokens& tested = counts.tested_at[depth][of(node)][rank];
      tested.tested += 1;
      tested.accepted += is_right ? 1 : 0;
      ++rank;
    }
  }
}

}  // namespace

Engine::State::State(const EngineOptions& engine_options, Target model, std::shared_ptr<const Tokenizer> words,
                     std::unique_ptr<Proposer> runs_ahead, ObservationSink* sink,
                     std::vector<StepListener*> step_listeners)
    : options(engine_options),
      target(std::move(model.worker)),
      prefixes(target->cache(), static_cast<std::int32_t>(options.prefix_cache * target->cache().n_pages())),
      verifier(std::move(model.verifier)),
      tokenizer(std::move(words)),
      proposer(std::move(runs_ahead)),
      policy(options.adaptive_k ? make_policy(options.policy, {options.tree_width, options.stop_early})
                                : make_fixed_policy({options.tree_width, options.stop_early})),
      observations(sink),
      listeners(std::move(step_listeners)),
      request_queue(options.max_waiting, options.seed),
      estimates_(options.step_curves) {
  no_memory();  // made while memory is available
  reserve_arrays();
  n_free_pages.store(free_pages(), std::memory_order_relaxed);
  if (tokenizer != nullptr) masks = std::make_unique<TokenMasks>(token_texts(*tokenizer));
}

// Reserves the arrays with one entry per sequence, so that admitting, planning and ending a request need no memory of
// their own.
void Engine::State::reserve_arrays() {
  const auto most = static_cast<std::size_t>(options.max_running);
  running.reserve(most);
  parts_.resize(most);
  needs_.reserve(most + kMostPassed);
  picked_.reserve(most);
  loads_.reserve(most);
  outlooks_.reserve(most);
  deadlines_.reserve(most);
  deadline_limits_.skipped.reserve(most);
  orders_.reserve(most);
  plan_.sequences.reserve(most);
  draft_tasks_.reserve(most);
  nodes_.reserve(most * kMaxProposalNodes);
  rooms_.reserve(most);
  kept_.reserve(kMaxProposalNodes);
  score_tasks_.reserve(most);
}

// ---- plan ----

void Engine::State::plan_next() {
  const std::int64_t start_us = monotonic_us();
  plan_.sequences.clear();
  loads_.clear();
  for (std::size_t i = 0; i < running.size(); ++i) {
    const Sequence& sequence = *running[i];
    parts_[i].ref = sequence.ref();
    parts_[i].guesses = {};
    parts_[i].saved_us = 0;
    parts_[i].rows_read = 0;
    parts_[i].width = 1;
    parts_[i].stop = {};
    SequenceLoad load;
    load.n_tokens = sequence.n_tokens();
    load.n_pending = sequence.waits_for_pages ? 0 : sequence.n_pending();
    load.remaining = sequence.remaining();
    load.score_prompt = sequence.request.score_prompt;
    const std::int32_t k = std::min(sequence.request.k.value_or(options.k), sequence.request.tree.longest_chain());
    load.k_wanted = parts_[i].likely_nodes = sequence.drafting ? k : 0;
    // A step commits at most as many tokens, so add_guesses() compares no more.
    parts_[i].ref.most_guesses = std::min(load.k_wanted + 1, load.remaining);
    load.ready_depth = sequence.drafting ? look_ahead(i) : 0;
    parts_[i].guessed = load.ready_depth == 0;
    loads_.push_back(load);
  }
  look_at_deadlines();
  if (const auto failure = contain([&] { choose_lengths(); })) {
    log_parts(LogLevel::kError, {"choosing draft lengths failed, using the configured ones: ", failure->what()});
    orders_.clear();
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (parts_[i].guessed) loads_[i].ready_depth = static_cast<std::int32_t>(parts_[i].guesses.tokens.size());
  }
  StepLimits limits;
  limits.max_rows = target->max_rows();
  limits.max_logit_rows = target->max_logit_rows();
  limits.prefill_chunk = prompt_limit_;
  limits.max_positions = target->config().max_positions;
  plan_step(loads_, limits, plan_);
  for (std::size_t i = 0; i < running.size(); ++i) {
    Part& part = parts_[i];
    part.plan = plan_.sequences[i];
    part.proposal.clear();
    part.has_logits = false;
    part.first_prompt_row = -1;
    part.committed.clear();
  }
  figures_.plan_us = monotonic_us() - start_us;
}

void Engine::State::choose_threads() {
  if (cores == nullptr) return;
  if (runs_background()) return cores->begin_background_step();
  StepKind kind{.has_prompt = false, .rows = 0};
  for (std::size_t i = 0; i < running.size(); ++i) {
    const PlannedSequence& plan = parts_[i].plan;
    kind.rows += plan.n_rows + std::min(plan.k, parts_[i].likely_nodes);
    kind.has_prompt |= plan.n_rows > 1;
  }
  cores->begin_step(kind);
}

// ---- propose, select ----

// A failing proposer costs its speed-up, never an answer.
void Engine::State::propose() {
  draft_tasks_.clear();
  read_us_ = 0;
  draft_passes_ = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    Part& part = parts_[i];
    if (!running[i]->drafting) continue;
    part.draft_reads = wants_reading(i);
    draft_tasks_.push_back({&part.ref, part.plan.k, part.width, &part.proposal, part.guessed, part.draft_reads,
                            &part.rows_read, part.stop});
  }
  if (draft_tasks_.empty()) return;
  const std::int64_t start_us = monotonic_us();
  if (const auto failure = contain([&] { run_ahead(); })) {
    log_parts(LogLevel::kError, {"drafting failed, the running requests go on without drafts: ", failure->what()});
    drop_drafts();
  }
  figures_.draft_us = monotonic_us() - start_us - figures_.swap_us;
}

void Engine::State::run_ahead() {
  const CatchUpTimes times = proposer->catch_up(draft_tasks_, {options.prefill_chunk, options.catch_up_chunk});
  figures_.swap_us = times.swap_us;
  read_us_ = times.read_us;
  learn_draft_use(times.read_us);
  // A version that just took over may support less depth than was planned.
  for (DraftTask& task : draft_tasks_) {
    if (task.nodes > 0 && !task.guessed) task.nodes = std::min(task.nodes, proposer->ready_depth(*task.sequence));
  }
  draft_passes_ = proposer->propose(draft_tasks_);
}

void Engine::State::drop_drafts() {
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i]->drafting) proposer->release(running[i]->request.id);
    running[i]->drafting = false;
    parts_[i].guesses = {};
    parts_[i].proposal.clear();
  }
}

void Engine::State::select() {
  if (!orders_.empty() && (options.tree_width > 1 || policy->selects_chains())) {
    if (!contain([&] { choose_nodes(); })) return;
  }
  for (std::size_t i = 0; i < running.size(); ++i) select_nodes(parts_[i].proposal, parts_[i].plan.k);
}

// ---- verify, accept ----

void Engine::State::verify() {
  const std::int64_t start_us = monotonic_us();
  score_tasks_.clear();
  for (std::size_t i = 0; i < running.size(); ++i) {
    Part& part = parts_[i];
    const std::int32_t n_rows = part.plan.n_rows;
    if (n_rows == 0) continue;
    Sequence& sequence = *running[i];
    const bool is_prompt = sequence.n_pending() > 1;
    const auto n_nodes = static_cast<std::int32_t>(part.proposal.size());
    ScoreTask task;
    task.tokens =
        part.ref.tokens.subspan(static_cast<std::size_t>(sequence.n_cached), static_cast<std::size_t>(n_rows));
    task.pages = &sequence.pages;
    task.n_cached = sequence.n_cached;
    task.proposal = &part.proposal;
    task.wants_logits = n_rows == sequence.n_pending();
    task.sequence = task.wants_logits && sequence.remaining() > 0 ? &part.ref : nullptr;
    task.top_k = task.sequence != nullptr && sequence.observed ? options.top_k_observed : 0;
    task.needs_logits = sequence.request.needs_logits();
    if (sequence.request.score_prompt && sequence.n_cached < sequence.prompt_tokens) {
      task.wants_all_logits = is_prompt;
      part.first_prompt_row = sequence.n_cached;
    }
    part.task = score_tasks_.size();
    part.has_logits = task.wants_logits;
    score_tasks_.push_back(task);
    (is_prompt ? figures_.n_prefilling : figures_.n_decoding) += 1;
    (is_prompt ? figures_.prefill_rows : figures_.verify_rows) += n_rows + n_nodes;
    figures_.proposed += n_nodes;
  }
  verifier->score(score_tasks_);
  figures_.verify_us = monotonic_us() - start_us;
  if (options.adaptive_k) learn_lengths();
  learn_prompt_time();
}

// A logit that is not finite fails only its own request.
void Engine::State::accept() {
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!parts_[i].has_logits) {
      running[i]->n_cached += parts_[i].plan.n_rows;
      continue;
    }
    const bool ends_prompt = running[i]->figures.output_tokens == 0;
    if (const auto failure = contain([&] { accept_one(i); })) {
      fail(*running[i], *failure);
    } else if (ends_prompt) {
      remember_prefix(*running[i]);
    }
  }
}

void Engine::State::accept_one(std::size_t i) {
  Sequence& sequence = *running[i];
  if (sequence.remaining() == 0) return sequence.end_unanswered();
  Part& part = parts_[i];
  verifier->verify(part.task, part.result);
  verifier->keep_path(score_tasks_[part.task], part.result.accepted);
  if (sequence.drafting) proposer->on_verified(part.ref, part.result);
  sequence.n_cached += part.plan.n_rows + static_cast<std::int32_t>(part.result.accepted.size());
  const auto commit = [&](std::int32_t token) {
    part.committed.push_back(token);
    return sequence.commit(token);
  };
  bool ended = false;
  for (std::size_t j = 0; j < part.result.accepted.size() && !ended; ++j) {
    ended = commit(part.proposal.tokens[static_cast<std::size_t>(part.result.accepted[j])]);
  }
  if (!ended) commit(part.result.added_token);
  count_result(i);
}

// The pages of a failed sequence may hold anything, and slots beyond the tokens hold rejected rows. A background
// request must not displace the prefixes of others. When memory runs out here, a later request with this prefix reads
// it again.
void Engine::State::remember_prefix(Sequence& sequence) {
  if (sequence.reason == StopReason::kFailed || sequence.request.is_background()) return;
  const auto n_read = static_cast<std::size_t>(std::min(sequence.n_cached, sequence.n_tokens()));
  contain([&] { prefixes.add({sequence.request.tenant}, std::span(sequence.tokens).first(n_read), sequence.pages); });
}

// Counts only committed tokens. When the answer ended inside the accepted path, the tokens after its end do not count.
// α is that of first choices, so that siblings do not look like a better draft.
void Engine::State::count_result(std::size_t i) {
  const Part& part = parts_[i];
  const Proposal& proposal = part.proposal;
  RequestFigures& counts = running[i]->figures;
  const std::size_t n_accepted = std::min(part.result.accepted.size(), part.committed.size());
  const bool reached_end = part.committed.size() > part.result.accepted.size();
  const bool rejected = reached_end && part.result.rejected_one;
  counts.steps += 1;
  counts.proposed += static_cast<std::int32_t>(proposal.size());
  const auto path = std::span(part.result.accepted).first(n_accepted);
  const std::int32_t n_first = proposal.count_first_choices(path);
  const std::int32_t n_siblings = static_cast<std::int32_t>(n_accepted) - n_first;
  counts.accepted += n_first;
  counts.accepted_siblings += n_siblings;
  counts.first_rejections += n_siblings + (rejected ? 1 : 0);
  const std::size_t n_reached = n_accepted + (rejected ? 1 : 0);
  if (counts.reached_at.size() < n_reached) {
    counts.reached_at.resize(n_reached);
    counts.accepted_at.resize(n_reached);
  }
  for (std::size_t depth = 0; depth < n_reached; ++depth) counts.reached_at[depth] += 1;
  for (std::size_t depth = 0; depth < n_accepted; ++depth)
    counts.accepted_at[depth] += proposal.rank_of(path[depth]) == 0 ? 1 : 0;
  count_proposers(proposal, path, rejected, counts);
  figures_.accepted += static_cast<std::int32_t>(n_accepted);
  figures_.committed += static_cast<std::int32_t>(part.committed.size());
  if (options.adaptive_k && proposal.size() > 0 && !part.guessed) {
    estimates_.add_verification(part.ref, proposal, path, rejected);
  }
  if (options.adaptive_k) estimates_.add_guesses(part.ref, part.guesses, part.committed);
  if (proposal.version == 0 || proposal.size() == 0) return;
  if (counts.first_version == 0) counts.first_version = proposal.version;
  if (counts.last_version != 0 && counts.last_version != proposal.version) ++counts.swaps;
  counts.last_version = proposal.version;
}

// Weights with a NaN fail every request for the same reason, so the log repeats a reason only once a minute. What a
// client did wrong, such as a schema that cannot be followed, it is told alone.
void Engine::State::fail(Sequence& sequence, const Error& cause) {
  sequence.fail(cause);
  if (cause.code() == ErrorCode::kInvalidArgument) return;
  const std::int64_t now_us = monotonic_us();
  if (cause.what() == logged_failure_ && now_us < next_log_us_) return;
  contain([&] { logged_failure_ = cause.what(); });
  next_log_us_ = now_us + kLogAgainUs;
  log_parts(LogLevel::kError, {"a request failed: ", cause.what(), cause.hint().empty() ? "" : "; ", cause.hint()});
}

// Sequences without rows in this step go on, unless the step failed before it was planned.
void Engine::State::fail_step(const Error& cause) {
  log_parts(LogLevel::kError, {"a step failed, its requests end: ", cause.what()});
  const bool planned = plan_.sequences.size() == running.size();
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!planned || parts_[i].plan.n_rows > 0) running[i]->fail(cause);
  }
}

}  // namespace slip
