// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distill/replay/replay_record.h"
#include "engine/models/transformer.h"

namespace slip {

// How a draft would have fared on a text the target already wrote.
struct AcceptanceScore {
  double accepted = 0;  // expected number; whole for greedy and coupled traffic
  double first_rejections = 0;
  double steps = 0;          // target steps the answer would have taken
  double tokens = 0;         // answer tokens
  double captured_mass = 1;  // mean of 1 − tail: what the stored top-K could see (the tail counts as rejected)
  double rows = 0;           // of the answer that a draft was asked about
  double alone = 0;          // of those, how many the draft's own choices would have had accepted, without any lookup
  double alpha() const { return accepted + first_rejections > 0 ? accepted / (accepted + first_rejections) : 0; }
  double alpha_alone() const { return rows > 0 ? alone / rows : 0; }  // a share of rows, not of a chain's reach
  double accepted_length() const { return steps > 0 ? tokens / steps : 0; }
  // Sums over requests; `captured_mass` stays the first one's.
  AcceptanceScore& operator+=(const AcceptanceScore& other) {
    accepted += other.accepted;
    first_rejections += other.first_rejections;
    steps += other.steps;
    tokens += other.tokens;
    rows += other.rows;
    alone += other.alone;
    return *this;
  }
};

// P(accepted) of one row under the rejection rule, and how much of p the stored ids cover after the transform.
struct RowOverlap {
  double accepted = 0, captured = 1;
};
// `q` is transformed already; `p` is raw and goes through the same transform here. Pure.
RowOverlap overlap(const TopK& p, const SamplingParams& sampling, const Distribution& q, std::int32_t vocab_size);

// Walks the chain of `k` along an answer whose row i would accept with probability accept[i] (0 or 1 for greedy and
// coupled traffic): expected accepted, first rejections and steps. The first token comes from the prompt's own pass and
// is never drafted. Pure.
AcceptanceScore walk_chain(std::span<const double> accept, int k);

// Scores drafts on verified text off the hot path: one teacher-forced pass, then the chain of k is walked along the
// answer by the traffic's own rule. Greedy and coupled requests: exactly what serving with that version would have
// counted, up to the answer's last token (where a request cut by max_tokens would have drafted one fewer). Rejection:
// the expectation, Σ min(p, q) per row over the stored ids, so what p has in the tail counts as rejected; where a
// temperature makes the tail's weight unknown its upper bound stands in. A prompt lookup believes its guesses by what
// it saw up to the row, where serving has seen what is committed. Threads: one owner; uses its own cache, never
// the engine's, and no `pool` that the engine uses.
class DraftScorer {
 public:
  // Scores the first `max_tokens` tokens of a record at most; beyond, the answer counts as undrafted. `prompt_lookup`:
  // as EngineOptions has it.
  DraftScorer(const ModelConfig& draft_shape, std::int32_t max_tokens, kernels::ThreadPool& pool,
              bool prompt_lookup = false);
  ~DraftScorer();
  // REQUIRES: every token of the record is in the draft's vocabulary, k ≥ 0. Error{kDataLoss} when the draft computes
  // a logit that is not a number.
  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record, int k);
  // Of its cache and its rows of logits.
  std::uint64_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
