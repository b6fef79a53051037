// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distill/replay_record.h"
#include "engine/model/transformer.h"

namespace slip {

// How a draft would have fared on a text the target already wrote.
struct AcceptanceScore {
  double accepted = 0;  // expected number; whole for greedy and coupled traffic
  double first_rejections = 0;
  double steps = 0;          // target steps the answer would have taken
  double tokens = 0;         // answer tokens
  double captured_mass = 1;  // mean of 1 − tail: what the stored top-K could see (the tail counts as rejected)
  double alpha() const { return accepted + first_rejections > 0 ? accepted / (accepted + first_rejections) : 0; }
  double accepted_length() const { return steps > 0 ? tokens / steps : 0; }
};

// Scores drafts on verified text off the hot path: one teacher-forced pass, then the chain of k is walked along the
// answer by the traffic's own rule. Greedy and coupled requests: exactly what serving with that version would have
// counted. Rejection: the expectation, Σ min(p, q) per row. Threads: one owner; uses its own pool and cache, never the
// engine's.
class DraftScorer {
 public:
  DraftScorer(const ModelConfig& draft_shape, std::int32_t max_tokens, kernels::ThreadPool& pool);
  ~DraftScorer();
  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record, int k);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
