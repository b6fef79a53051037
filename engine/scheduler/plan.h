// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// The inputs of planning for one running sequence.
struct SequenceLoad {
  std::int32_t n_tokens = 1;     // committed tokens: prompt and answer so far
  std::int32_t n_pending = 1;    // committed tokens that the target has not read; 1 while decoding; 0: it waits
  std::int32_t remaining = 1;    // answer tokens still allowed; 0 only for a request that only wants its prompt read
  std::int32_t k_wanted = 0;     // the request's or the engine's draft length
  std::int32_t ready_depth = 0;  // Proposer::ready_depth(), or the length of its guesses
  bool score_prompt = false;     // every row of its prompt needs logits
};

struct StepLimits {
  std::int32_t max_rows = 1, max_logit_rows = 1;  // of one target pass
  std::int32_t prefill_chunk = 1;                 // prompt rows of one pass, over all prompts
  std::int32_t max_positions = 1;                 // the target's context length
};

struct PlannedSequence {
  std::int32_t n_rows = 0;  // pending tokens that this pass reads; 0: the sequence waits
  std::int32_t k = 0;       // maximum nodes of its proposal; > 0 only when the pass reads all pending tokens
};

struct Plan {
  std::vector<PlannedSequence> sequences;  // in the order of the loads
};

// Plans one pass. Every decoding sequence gets its row, then prompts are read in the order of the loads. The rest of
// the budget goes to proposals, one node per sequence in turn, so that a tight budget shortens all chains alike. k is
// limited by the tokens that can still be committed (one is always the target's own), by the context and by
// ready_depth. A scored prompt is read in pieces that leave the other sequences the logit rows they need. Pure.
// REQUIRES: limits.max_rows and max_logit_rows > loads.size(), so that every sequence advances.
void plan_step(std::span<const SequenceLoad> loads, const StepLimits& limits, Plan& plan);

// Slots of the cache that a sequence holds for its next step, for `n_tokens` committed tokens: the proposal's rows
// included, at most `most_tokens`. Pure.
std::int32_t slots_for_step(std::int32_t n_tokens, std::int32_t most_tokens);
// Slots that a request needs to start, or to start again: its tokens and room for the next 64 of its answer, at most
// `most_tokens`; all of these if its prompt is scored, since then it cannot be preempted. Pure.
std::int32_t slots_to_start(std::int32_t n_tokens, std::int32_t most_tokens, bool score_prompt);

// A waiting request's needs and history, for admission.
struct WaitingNeed {
  std::int32_t pages = 0;     // that it needs to start
  std::int32_t n_passed = 0;  // later requests that started before it
};
inline constexpr std::int32_t kMostPassed = 8;  // the most that n_passed may become

// Picks the waiting requests that may start now: their indices, ascending. Pages for the rest of an answer are reserved
// as it grows, so `free_pages` is what the running sequences leave. In the order given, except that small requests pass
// one that does not fit yet, at most kMostPassed of them. Pure.
void pick_admissible(std::span<const WaitingNeed> waiting, std::int32_t free_pages, std::int32_t free_sequences,
                     std::vector<std::size_t>& picked);

}  // namespace slip
