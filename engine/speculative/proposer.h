// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "engine/speculative/live_draft.h"
#include "engine/speculative/proposal.h"

namespace slip {

// What a proposer may see of a sequence: valid for one call, `id` names the sequence between calls.
struct SequenceRef {
  RequestId id;
  std::span<const std::int32_t> tokens;  // committed: prompt, then answer
  std::int32_t prompt_tokens = 0;
  std::int32_t max_total_tokens = 0;         // prompt and answer together never grow beyond
  const SamplingParams* sampling = nullptr;  // seed always set
  std::span<const std::int32_t> end_ids;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint32_t choice = 0;
  LiveDraft* live_draft = nullptr;   // null: the request names no draft
  AnswerGrammar* grammar = nullptr;  // null: any text
  bool wants_probability = false;    // path_logprob is looked at
  bool verified_on_device = false;   // q may stay on the device: Proposal::device_q then stands for Proposal::q

  // For the row that has `path` behind it: these tokens and what is proposed after them.
  RowContext row_context(std::span<const std::int32_t> path) const { return {path, prompt_tokens, end_ids, grammar}; }
  // Address of the randomness behind the next token of the answer.
  RandomAddress next_address() const {
    return {sampling->seed.value_or(0), choice, static_cast<std::uint32_t>(tokens.size()) - prompt_tokens};
  }
};

struct ProposeBudget {
  std::span<const std::int32_t> nodes;  // [n_seq] at most so many for each; 0: leave that sequence alone
};

struct CatchUpBudget {
  std::int32_t prompt_rows = 0;  // committed tokens the live state has not read yet
  std::int32_t swap_rows = 0;    // tokens a new version reads before it takes over
};

// Anything that runs ahead of the target: a draft model, a lookup, heads on the target's own features. Whatever it
// proposes, the answer stays the same; it only has to be honest about how its tokens were drawn.
// Threads: the engine thread only.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // False: it also drafts for sequences whose SequenceRef::live_draft is null.
  virtual bool needs_draft() const { return true; }
  virtual void begin(const SequenceRef& sequence) = 0;
  // Reads what it is behind by, within the budget, and lets versions that have caught up take over. Returns the
  // microseconds that went into new versions.
  virtual std::int64_t catch_up(std::span<const SequenceRef> sequences, CatchUpBudget budget) = 0;
  // How many tokens it could propose for this sequence now; 0 while too far behind.
  virtual std::int32_t ready_depth(const SequenceRef& sequence) const = 0;
  // Whether it is surer than usual of what it would propose now; acceptance rates of such proposals are kept apart. By
  // the committed tokens alone.
  virtual bool is_confident(const SequenceRef& /*sequence*/) { return false; }
  // Fills proposals[i], cleared before, with up to budget.nodes[i] nodes. REQUIRES: nodes[i] ≤ ready_depth; the tokens
  // of a sequence change only by way of on_verified.
  virtual void propose(std::span<const SequenceRef> sequences, const ProposeBudget& budget,
                       std::span<Proposal> proposals) = 0;
  // `sequence.tokens` are those before this result's tokens are added.
  virtual void on_verified(const SequenceRef& sequence, const VerifyResult& result) = 0;
  virtual void release(RequestId sequence) = 0;  // unknown ids are ignored
};

}  // namespace slip
