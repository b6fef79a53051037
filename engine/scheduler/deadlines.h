// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/slo_targets.h"

namespace slip {

// A running sequence as its deadlines see it.
struct DeadlineLoad {
  SloTargets slo;
  std::int32_t n_pending = 1;  // as in SequenceLoad: 1 while decoding
  // While decoding: since its first token; before: since it was submitted; while it reads its tokens again since it was
  // preempted: 0, with no target for the first token.
  std::int64_t since_us = 0;
  std::int32_t n_done = 0;     // tokens of the answer after the first one
  std::int32_t remaining = 0;  // tokens that it may still get
  double tokens_per_step = 1;  // that its steps are expected to commit
};

// The targets that steps are planned by. A target for the whole answer becomes one for the first token. Once that token
// has come, `ttft_us` after the submission (0: not yet), it becomes one per later token of an answer of `most_tokens`.
// Where a request has both kinds, the stricter target holds. Pure.
SloTargets planned_targets(const SloTargets& slo, std::int64_t ttft_us, std::int32_t most_tokens);

// The predicted times of the next step, and whether requests wait.
struct StepForecast {
  double decode_us = 0;      // without prompts
  double prompt_row_us = 0;  // for each row of a prompt; 0: unknown
  bool has_queue = false;    // requests wait until a running one ends
};

// How far a decoding sequence is ahead of its target time per token when the next step begins: the longest that this
// step may take so that the sequence is on time after it. AdaServe (arXiv 2501.12162) asks for A = (l + t)/τ − o tokens
// of a step of time t, with l the time since the first token, o the tokens since and τ the target; A = the tokens that
// the step brings gives this t. REQUIRES: slo.tpot_us > 0. Pure.
double slack_us(const DeadlineLoad& load);

// The same at the end of the sequence's next 16 tokens, if steps without prompts bring them: what it wins back by
// itself until then. Pure.
double slack_soon_us(const DeadlineLoad& load, const StepForecast& forecast);

// Whether steps without prompts are fast enough for the target: a sequence that cannot be on time is served like one
// without a target, since serving it first would only make others late. Pure.
bool can_be_on_time(const DeadlineLoad& load, const StepForecast& forecast);

// Limits of the next step, so that sequences with targets are on time.
struct DeadlineLimits {
  std::int32_t prompt_rows = 0;       // that it may read
  std::vector<std::uint8_t> skipped;  // by sequence: 1 if it has no part in the step
};

// Rows of prompts that the next step may read, at most `most`: as many as leave every sequence that can be on time four
// steps of slack after its next 16 tokens, for slow steps and rejections. At least 8, so that prompts end. All of
// `most` in five cases: no decoding sequence has a target that it can meet, the time of a row is unknown, a prompt's
// own target is at risk, a prompt has waited for five seconds, or requests wait for a place that prompts take up. Pure.
std::int32_t prompt_rows_in_time(std::span<const DeadlineLoad> loads, const StepForecast& forecast, std::int32_t most);

// Marks the sequences that skip the next step, if any sequence is late or soon will be. They are ahead of their
// own target by four steps and the time in which a step reads `most` rows of prompts. Their rows would make the step
// longer for the late ones. At least one sequence takes part. Pure.
void mark_sequences_to_skip(std::span<const DeadlineLoad> loads, const StepForecast& forecast, std::int32_t most,
                            std::vector<std::uint8_t>& skipped);

// The weight of this sequence's tokens in the choice of draft lengths: more than 1 while it is late and can be on time.
// Pure.
double worth_of_token(const DeadlineLoad& load, const StepForecast& forecast);

}  // namespace slip
