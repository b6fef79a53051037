// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/core_sharing.h"
#include "engine/models/transformer.h"
#include "engine/request.h"
#include "engine/scheduler/policy_kind.h"
#include "engine/scheduler/step_curve.h"
#include "engine/speculative/draft_model_proposer.h"
#include "engine/speculative/observation.h"
#include "engine/speculative/proposer.h"
#include "engine/speculative/target.h"
#include "engine/step_listener.h"
#include "text/tokenizer.h"

namespace slip {

struct EngineOptions {
  std::int32_t k = 3;                        // drafted tokens per step, 0 … kMaxProposalNodes; 0 = no speculation
  bool adaptive_k = false;                   // k is the maximum: `policy` decides what each sequence drafts
  PolicyKind policy = PolicyKind::kGoodput;  // with adaptive_k
  bool stop_early = false;                   // with adaptive_k: a draft ends where its next token is not worth its time
  std::int32_t tree_width = 1;               // maximum tokens proposed for one place, 1 … kMaxTreeWidth; 1: chains
  bool prompt_lookup = false;                // propose by prompt lookup too; drafts on the CPU combine with it
  std::int32_t max_running = 16;             // sequences in one step
  std::int32_t max_waiting = 256;            // submit() refuses more
  std::int32_t prefill_chunk = 256;          // prompt rows per step, over all prompts
  std::int32_t prefill_ms = 100;             // by which prompts may lengthen a step of running answers; 0: no limit
  std::int32_t catch_up_chunk = 256;         // draft rows per step spent on catching up after a swap
  bool deadlines = false;                    // plan for Request::slo (scheduler/deadlines.h); else it is only measured
  double prefix_cache = 0.25;    // maximum share of the pages for the prefix cache, also of the drafts' pages; 0: none
  std::int32_t draft_pages = 0;  // 0: twice the target's, since a swap briefly keeps two versions
  std::int32_t top_k_observed = TopK::kDefault;
  std::optional<std::uint64_t> seed;  // generates the seeds of requests without one; empty: from the system
  StepCurves step_curves;             // that an earlier engine measured; empty: this one measures before it plans
};

// The engine's options that concern a draft model for `target`.
DraftModelOptions draft_model_options(const EngineOptions& options, Worker& target);

// Continuous batching with speculative decoding. `step()` runs reserve → admit → plan → propose → select → verify →
// accept → emit → record. Threads: submit() and cancel() from any thread; step(), run() and all state belong to one
// engine thread. A LibTorch, CUDA or worker failure is caught once, at the step boundary: it fails the requests of that
// step, and the engine goes on. When memory runs out, the requests that needed it end with kUnavailable; ending them
// allocates nothing.
class Engine {
 public:
  // `tokenizer` may be null (ids in, ids out; then no stop strings). Pool, sink and listeners outlive the engine; sink
  // may be null.
  Engine(EngineOptions options, Target target, std::shared_ptr<const Tokenizer> tokenizer, kernels::ThreadPool& pool,
         ObservationSink* observations, std::vector<StepListener*> listeners);
  // The same with another proposer than the draft model. `cores` outlives the engine and decides how many threads of
  // the pool each step uses; null: all of them.
  Engine(EngineOptions options, Target target, std::shared_ptr<const Tokenizer> tokenizer,
         std::unique_ptr<Proposer> proposer, ObservationSink* observations, std::vector<StepListener*> listeners,
         CoreSharing* cores = nullptr);
  ~Engine();

  // Throws Error: kInvalidArgument (param names the field), kTooLarge ("context_length_exceeded"), kOverloaded when
  // max_waiting requests wait, kUnavailable after close().
  void submit(Request request);
  void cancel(RequestId id);  // takes effect at the next step; unknown ids are ignored
  void close();               // accepts no new requests; run() returns once all accepted ones have finished

  // One target pass; false when there was nothing to do.
  bool step();
  // Steps until closed and idle, or until `stop` is requested; then the remaining requests end as cancelled. Sleeps
  // while idle.
  void run(const std::stop_token& stop);

  std::int32_t n_running() const;  // any thread
  std::int32_t n_waiting() const;  // any thread
  // The waiting requests that would start before this one, if it came now. Any thread.
  std::int32_t n_waiting_before(const Request& request) const;
  // Free pages of the target's cache, including those that only the prefix cache holds. Updated by each step and at the
  // end of a sequence. Any thread.
  std::int32_t n_free_pages() const;
  // Times that a later engine may begin with. Engine thread; any thread after run().
  StepCurves step_curves() const;
  const EngineOptions& options() const { return options_; }

 private:
  struct State;
  EngineOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace slip
