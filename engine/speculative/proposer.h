// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "engine/speculative/choice_rates.h"
#include "engine/speculative/live_draft.h"
#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/proposal.h"

namespace slip {

// A proposer's view of a sequence, valid for one call; `id` identifies the sequence between calls.
struct SequenceRef {
  RequestId id;
  std::span<const std::int32_t> tokens;  // committed: prompt, then answer
  std::int32_t prompt_tokens = 0;
  std::int32_t max_total_tokens = 0;  // maximum of prompt and answer together
  // Maximum tokens of guesses() that are used: those that may be proposed, and one more, since a step may commit it.
  std::int32_t most_guesses = kMaxProposalNodes;
  const SamplingParams* sampling = nullptr;  // seed always set
  std::span<const std::int32_t> end_ids;
  std::span<const std::int32_t> prediction;  // as in Request
  PastAnswers* past_answers = nullptr;       // null: none
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint32_t choice = 0;
  LiveDraft* live_draft = nullptr;   // null: the request names no draft
  AnswerGrammar* grammar = nullptr;  // null: any text
  bool wants_probability = false;    // path_logprob is used
  TenantId tenant;                   // its draft's prefix cache is this tenant's alone
  bool verified_on_device = false;   // q may stay on the device: Proposal::device_q then stands for Proposal::q

  // The context of the row after `path`: the committed tokens, then a proposal's.
  RowContext row_context(std::span<const std::int32_t> path) const { return {path, prompt_tokens, end_ids, grammar}; }
  // Address of the random numbers for the next token of the answer.
  RandomAddress next_address() const {
    return {sampling->seed.value_or(0), choice, static_cast<std::uint32_t>(tokens.size()) - prompt_tokens};
  }
};

// How a draft model's tokens are drawn for this sequence.
inline DrawMethod draw_method_of(const SequenceRef& sequence) {
  if (sequence.sampling->temperature == 0) return DrawMethod::kDeterministic;
  return sequence.rule == AcceptanceRule::kCoupled ? DrawMethod::kGumbel : DrawMethod::kSampled;
}

// Ends a chain, after its planned first token, where the next token is worth less than it costs. A token's worth is the
// probability that it is accepted. The prices are the tokens that the same time would bring otherwise. The rule looks
// at the tokens before, never at the next one, so it biases no distribution.
struct StopRule {
  const ChoiceRates* rates = nullptr;    // of the draft; null: the chain grows to its full length
  double next_rate = 0;                  // P(a token is accepted | those before it are), for a token not drafted yet
  double row_price = 0, pass_price = 0;  // of a row of the target's pass, and of a draft pass, which all chains share
};

// One sequence's part of a drafting step.
struct DraftTask {
  const SequenceRef* sequence = nullptr;
  std::int32_t nodes = 0;             // maximum depth of the proposal; 0: none
  std::int32_t width = 1;             // maximum tokens for one place, up to kMaxTreeWidth; 1: a chain
  Proposal* proposal = nullptr;       // empty before propose()
  bool guessed = false;               // propose the first of guesses(), without running a model
  bool reads = true;                  // a model reads the sequence's tokens, so that it can propose
  std::int32_t* rows_read = nullptr;  // null, or set by catch_up(): the tokens it read for its live version
  StopRule stop = {};                 // of a draft model
};

// A chain that a proposer can propose without running a model.
struct Guesses {
  std::span<const std::int32_t> tokens;
  // How likely the next proposal is accepted, as a class of its own. Acceptance rates of different classes are kept
  // apart.
  int confidence = 0;
};

struct CatchUpBudget {
  std::int32_t prompt_rows = 0;  // rows for committed tokens that the live version has not read
  std::int32_t swap_rows = 0;    // rows for tokens that a new version reads before it takes over
};

// Time that catch_up() took: for committed tokens, and for versions that are to take over.
struct CatchUpTimes {
  std::int64_t read_us = 0, swap_us = 0;
};

// Proposes tokens ahead of the target: a draft model, a lookup, heads on the target's own features. No proposal can
// change the answer, if draw_method and q state truly how its tokens were drawn. Threads: the engine thread only.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // Whether it drafts for this sequence at all. The engine asks once, before begin(), and decodes the others plainly.
  virtual bool drafts_for(const SequenceRef& sequence) const = 0;
  virtual void begin(const SequenceRef& sequence) = 0;
  // Reads committed tokens it has not read, within the budget, and lets versions that have caught up take over. A
  // sequence that no model `reads` falls behind; later it begins anew with the live version.
  virtual CatchUpTimes catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) = 0;
  // Maximum tokens that it can propose for this sequence now by running a model; 0 while it is too far behind.
  virtual std::int32_t ready_depth(const SequenceRef& sequence) = 0;
  // Valid until the next call for this sequence. Depends on the committed tokens and on past answers alone.
  virtual Guesses guesses(const SequenceRef& /*sequence*/) { return {}; }
  // Fills each task's proposal with up to `nodes` nodes. REQUIRES: nodes ≤ ready_depth(), or ≤ the number of guesses();
  // a sequence's tokens change only as on_verified() reports. Returns the passes of draft models that it ran, one after
  // the other: guesses need none, and sequences share them.
  virtual std::int32_t propose(std::span<const DraftTask> tasks) = 0;
  // `sequence.tokens` does not include this result's tokens yet.
  virtual void on_verified(const SequenceRef& sequence, const VerifyResult& result) = 0;
  virtual void release(RequestId sequence) = 0;  // unknown ids are ignored
};

}  // namespace slip
