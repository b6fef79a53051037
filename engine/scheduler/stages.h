// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/request_queue.h"
#include "engine/scheduler/deadlines.h"
#include "engine/scheduler/decode_time.h"
#include "engine/scheduler/draft_estimates.h"
#include "engine/scheduler/draft_length.h"
#include "engine/scheduler/plan.h"
#include "engine/scheduler/prompt_time.h"
#include "engine/scheduler/select.h"
#include "engine/scheduler/speculation_policy.h"
#include "engine/sequence.h"
#include "engine/speculative/verifier.h"

namespace slip {

// The stages of Engine::step over the running sequences, in the order they run. Engine thread only, except
// `request_queue` and the atomics. Stages outside of the step's contain() throw nothing: they contain their own
// allocations, and the arrays have their capacity from the start.
struct Engine::State {
  State(const EngineOptions& engine_options, Target model, std::shared_ptr<const Tokenizer> words,
        std::unique_ptr<Proposer> runs_ahead, ObservationSink* sink, std::vector<StepListener*> step_listeners);

  void end_cancelled();
  void reserve_pages();
  void admit();
  void plan_next();
  void choose_threads();
  void propose();
  void select();
  void verify();
  void accept();
  void emit();
  void record(std::int64_t start_us);
  void fail_step(const Error& cause);
  void end_all();  // ends all running and waiting requests as cancelled
  StepCurves step_curves() const { return estimates_.step_curves(); }

  EngineOptions options;
  std::unique_ptr<Worker> target;
  PrefixCache prefixes;  // of the target's cache
  std::unique_ptr<Verifier> verifier;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Proposer> proposer;
  std::unique_ptr<SpeculationPolicy> policy;
  std::unique_ptr<TokenMasks> masks;  // null without a tokenizer
  ObservationSink* observations;
  std::vector<StepListener*> listeners;
  CoreSharing* cores = nullptr;  // null: every step uses all threads
  RequestQueue request_queue;
  std::atomic<std::int32_t> n_running{0}, n_free_pages{0};
  std::vector<std::unique_ptr<Sequence>> running;  // in the order of join(): the last one is preempted first

 private:
  // One sequence's part of the current step.
  struct Part {
    SequenceRef ref;  // as of the step's start
    PlannedSequence plan;
    Guesses guesses;                // Proposer::guesses()
    bool guessed = false;           // it proposes these guesses
    double saved_us = 0;            // what drafting for it is expected to save
    bool draft_reads = false;       // its draft reads its tokens in this step
    std::int32_t width = 1;         // choices that its draft may propose for one place
    StopRule stop;                  // of its draft
    NodeOdds odds;                  // of the tokens that it proposes
    std::int32_t likely_nodes = 0;  // of its proposal, at most plan.k
    std::int32_t rows_read = 0;     // by its draft, to catch up
    Proposal proposal;
    std::size_t task = 0;                // index in `score_tasks_`, if it has rows
    bool has_logits = false;             // the logits of its next token are computed in this step
    std::int32_t first_prompt_row = -1;  // for a scored prompt: position of this step's first row in the prompt
    VerifyResult result;
    std::vector<std::int32_t> committed;
  };

  // Background requests run alone: either all running sequences are theirs, or none is.
  bool runs_background() const { return !running.empty() && running.front()->request.is_background(); }
  void end_background();
  void admit_background();
  void report_running(std::ptrdiff_t n);
  std::int32_t n_growing() const;
  std::int32_t free_pages() const { return target->cache().n_free() + prefixes.n_idle(); }
  void reserve_arrays();
  void start(WaitingRequest waiting);
  void join(std::unique_ptr<Sequence> sequence);
  void open(Sequence& sequence);
  void open_pages(Sequence& sequence);
  bool resume(Sequence& sequence);
  bool grow(std::size_t i);
  void preempt(Sequence& sequence);
  static void release_pages(Sequence& sequence);
  void begin_optional(Sequence& sequence);
  std::int32_t look_ahead(std::size_t i);
  void choose_lengths();
  bool wants_reading(std::size_t i) const;
  void learn_draft_use(std::int64_t read_us);
  DraftOutlook outlook_of(std::size_t i);
  void learn_lengths();
  void run_ahead();
  void drop_drafts();
  void follow_orders();
  DeadlineLoad deadline_of(std::size_t i, std::int64_t now_us) const;
  void learn_mean_tokens();
  std::int32_t most_prompt_rows() const;
  void look_at_deadlines();
  void learn_prompt_time();
  void list_proposed(std::size_t i);
  void choose_nodes();
  void accept_one(std::size_t i);
  void remember_prefix(Sequence& sequence);
  static void remember_answer(const Sequence& sequence);
  void count_result(std::size_t i);
  TokenDelta take_delta(std::size_t i);
  void add_prompt_logprobs(std::size_t i, TokenDelta& delta) const;
  Observation observation_of(std::size_t i);
  void stop_observing(Sequence& sequence, bool completed);
  std::int32_t row_of_committed(const Part& part, std::size_t index) const;
  TokenLogprobs logprobs_of(std::span<const float> logits, std::int32_t token, std::int32_t n_top) const;
  void retire();
  void finish(Sequence& sequence);
  void finish_unstarted(WaitingRequest waiting, StopReason reason, std::optional<Error> error = {});
  void report_end(RequestSummary summary, TokenSink& sink);
  void fail(Sequence& sequence, const Error& cause);

  StepFigures figures_;
  std::int32_t n_preempted_ = 0;  // by this step
  std::vector<Part> parts_;       // [max_running]; parts_[i] belongs to running[i] and keeps its memory for the next
  DraftEstimates estimates_;
  DecodeTimeEstimate decode_time_;       // the value of better drafts
  int n_since_report_ = 0;               // steps since the last report to `cores`
  std::vector<DeadlineLoad> deadlines_;  // [n_running]; empty: no sequence has a target
  double mean_tokens_ = 1;               // that a step brings a running sequence, smoothed
  PromptTimeEstimate prompt_time_{0.9};  // of the passes
  PromptTimeEstimate prompt_pace_{0.5};  // the same of the latest ones, for EngineOptions::prefill_ms
  StepForecast forecast_;                // of this step
  DeadlineLimits deadline_limits_;       // of this step, if a sequence has a target
  std::int32_t prompt_limit_ = 0;        // rows of prompts in this step
  std::int64_t read_us_ = 0;             // that drafts read committed tokens in this step
  std::int32_t draft_passes_ = 0;        // that proposed in this step
  // Arguments of the functions that do a stage's work, in the order of `running`; kept for their memory.
  std::vector<WaitingNeed> needs_;      // [n_waiting] in the order of the request queue
  std::vector<std::size_t> picked_;     // of `needs_`
  std::vector<SequenceLoad> loads_;     // [n_running]
  std::vector<DraftOutlook> outlooks_;  // [n_decoding]
  std::vector<DraftOrder> orders_;      // [n_decoding]
  std::vector<ProposedNode> nodes_;     // of proposals, the best first; then those to verify
  std::vector<std::int32_t> rooms_;     // [n_running] for nodes of its proposal that are listed
  std::vector<std::int32_t> kept_;      // of one proposal
  Plan plan_;                           // [n_running]
  std::vector<DraftTask> draft_tasks_;  // [n_drafting]
  std::vector<ScoreTask> score_tasks_;  // [n_seq_with_rows]
  std::string logged_failure_;          // the last failure written to the log
  std::int64_t next_log_us_ = 0;        // monotonic; the earliest time to log the same failure again
};

}  // namespace slip
