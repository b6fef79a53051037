// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distill/replay/replay_record.h"
#include "engine/models/transformer.h"

namespace slip {

// The acceptance counts that a draft would have had on a text that the target already wrote.
struct AcceptanceScore {
  double accepted = 0;  // expected number; whole for greedy and coupled traffic
  double first_rejections = 0;
  double steps = 0;     // target steps that the answer would have taken
  double tokens = 0;    // answer tokens
  double rows = 0;      // scored rows of the answer
  double repeated = 0;  // answer tokens inside an 8-gram seen before in the same answer
  double alone = 0;     // expected number of rows whose token the draft alone gets accepted, without lookup
  // As `steps`, but a row of greedy or coupled traffic that the draft decides counts with raw_overlap() instead of 0 or
  // 1. So it changes smoothly with the weights, and tells two versions apart on far fewer answers.
  double smooth_steps = 0;
  double alpha() const { return accepted + first_rejections > 0 ? accepted / (accepted + first_rejections) : 0; }
  double alpha_alone() const { return rows > 0 ? alone / rows : 0; }  // over all rows, not only those a chain reaches
  double accepted_length() const { return steps > 0 ? tokens / steps : 0; }
  // Sums over requests.
  AcceptanceScore& operator+=(const AcceptanceScore& other) {
    accepted += other.accepted;
    first_rejections += other.first_rejections;
    steps += other.steps;
    tokens += other.tokens;
    rows += other.rows;
    repeated += other.repeated;
    alone += other.alone;
    smooth_steps += other.smooth_steps;
    return *this;
  }
};

// All counts of a score times `weight`.
AcceptanceScore operator*(double weight, const AcceptanceScore& score);

// P(accepted) of one row under the rejection rule, and the mass of p on the stored ids after the transform.
struct RowOverlap {
  double accepted = 0, captured = 0;
};
// Computes a row's overlap. `q` is already transformed; `p` is raw and gets the same transform here. Pure.
RowOverlap overlap(const TopK& p, const SamplingParams& sampling, const Distribution& q, std::int32_t vocab_size);
// Σ min(p, q) over the stored ids at temperature 1, for a draft's raw `logits`: P(accepted) if the request were sampled
// without a transform. Pure.
double raw_overlap(const TopK& p, std::span<const float> logits);

// Simulates chains of `k` drafted tokens along an answer, where row i accepts with probability accept[i] (0 or 1 for
// greedy and coupled traffic). Returns the expected accepted tokens, first rejections and steps. The first token comes
// from the prompt's own pass and is never drafted. Pure.
AcceptanceScore walk_chain(std::span<const double> accept, int k);

// Scores drafts on verified text off the hot path: one teacher-forced pass, then a simulated chain of k along the
// answer by the request's own acceptance rule. For greedy and coupled requests the score equals what serving with that
// version would have counted, up to the answer's last token (where a request cut by max_tokens would have drafted one
// fewer). For rejection sampling it is the expectation: Σ min(p, q) per row over the stored ids, so that p's tail
// counts as rejected. Where a temperature makes the tail's weight unknown, its upper bound is used. A prompt lookup
// takes its confidence from the text up to the row, while in serving it takes it from the committed tokens. Threads:
// one owner. Uses its own cache, never the engine's; the engine must not use `pool`.
class DraftScorer {
 public:
  // Scores at most the first `max_tokens` tokens of a record; the rest of the answer counts as undrafted.
  // `prompt_lookup`: as in EngineOptions.
  DraftScorer(const ModelConfig& draft_shape, std::int32_t max_tokens, kernels::ThreadPool& pool,
              bool prompt_lookup = false);
  ~DraftScorer();
  // Scores one record with chains of k. REQUIRES: every token of the record is in the draft's vocabulary, k ≥ 0.
  // Error{kDataLoss} when the draft computes a logit that is not a number.
  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record, int k);
  // Bytes of its cache and its logits.
  std::uint64_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
