// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// What planning may know of a running sequence.
struct SequenceLoad {
  std::int32_t n_tokens = 1;     // committed: prompt and answer so far
  std::int32_t n_pending = 1;    // of those, not read by the target yet; 1 while decoding
  std::int32_t remaining = 1;    // answer tokens still allowed; 0 only for a prompt that is not answered
  std::int32_t k_wanted = 0;     // the request's or the engine's draft length
  std::int32_t ready_depth = 0;  // what its proposer can do now
  bool score_prompt = false;     // while it is a prompt, every row of it wants its logits
};

struct StepLimits {
  std::int32_t max_rows = 1, max_logit_rows = 1;  // of one target pass
  std::int32_t prefill_chunk = 1;                 // prompt rows of one pass, over all prompts
  std::int32_t max_positions = 1;                 // the target's context
};

struct PlannedSequence {
  std::int32_t n_rows = 0;  // pending tokens that this pass reads; 0: the sequence waits
  std::int32_t k = 0;       // nodes it may propose; > 0 only when the pass reads all that is pending
};

struct Plan {
  std::vector<PlannedSequence> sequences;  // as the loads
};

// One pass: every decoding sequence gets its row, then prompts are read oldest first, then what is left of the budget
// goes to proposals, one node a sequence in turn, so that a tight budget shortens all chains alike. k never exceeds
// what could still be committed (one token is always the target's own), the context, or what the proposer can do. A
// scored prompt is read in pieces that leave the others the logit rows they want. Pure.
// REQUIRES: limits.max_rows and max_logit_rows > loads.size(), so that every sequence advances.
void plan_step(std::span<const SequenceLoad> loads, const StepLimits& limits, Plan& plan);

// How many of the waiting requests, in order, may start now: a request's whole need of pages is set aside when it
// starts, so that a running sequence is never stopped for lack of room. Nobody overtakes: the first that does not fit
// ends it. Pure.
std::size_t n_admissible(std::span<const std::int32_t> pages_needed, std::int32_t free_pages,
                         std::int32_t free_sequences);

}  // namespace slip
