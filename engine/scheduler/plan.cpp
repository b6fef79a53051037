// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/plan.h"

#include <algorithm>

#include "common/error.h"
#include "engine/speculative/proposal.h"

namespace slip {

namespace {

// Tokens of the answer that a request reserves when it starts. With less, it would soon wait for pages again.
constexpr std::int32_t kAnswerRoom = 64;
static_assert(kAnswerRoom >= kMaxProposalNodes);

struct Budget {
  std::int32_t rows, logit_rows, prompt_rows;
};

std::int32_t most_nodes(const SequenceLoad& load, const StepLimits& limits) {
  // The last committed token takes one position, and each node another.
  const std::int32_t context = limits.max_positions - load.n_tokens;
  return std::max(0, std::min({load.k_wanted, load.ready_depth, load.remaining - 1, context}));
}

void plan_decoding(std::span<const SequenceLoad> loads, Budget& budget, Plan& plan) {
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].n_pending != 1) continue;
    plan.sequences[i].n_rows = 1;
    --budget.rows;
    --budget.logit_rows;
  }
}

// Logit rows that a scored prompt leaves to the other sequences: one for each prompt that may finish in this pass, and
// all that proposals could use.
std::int32_t logit_rows_of_others(std::span<const SequenceLoad> loads, const StepLimits& limits) {
  std::int32_t rows = 0;
  for (const SequenceLoad& load : loads) {
    rows += load.n_pending > 1 ? 1 : load.n_pending == 1 ? most_nodes(load, limits) : 0;
  }
  return rows;
}

void plan_prompts(std::span<const SequenceLoad> loads, const StepLimits& limits, Budget& budget, Plan& plan) {
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].n_pending <= 1) continue;
    std::int32_t n = std::min({loads[i].n_pending, budget.prompt_rows, budget.rows});
    if (loads[i].score_prompt) {
      const std::int32_t spare = budget.logit_rows - logit_rows_of_others(loads, limits);
      n = std::min({n, budget.logit_rows, std::max(spare, 1)});
    }
    const bool finishes = n == loads[i].n_pending;
    if (n <= 0 || (finishes && budget.logit_rows == 0)) continue;
    plan.sequences[i].n_rows = n;
    budget.rows -= n;
    budget.prompt_rows -= n;
    budget.logit_rows -= loads[i].score_prompt ? n : finishes ? 1 : 0;
  }
}

void plan_proposals(std::span<const SequenceLoad> loads, const StepLimits& limits, Budget& budget, Plan& plan) {
  std::int32_t nodes = std::min(budget.rows, budget.logit_rows);
  for (std::int32_t depth = 1; nodes > 0; ++depth) {
    bool grew = false;
    for (std::size_t i = 0; i < loads.size() && nodes > 0; ++i) {
      if (loads[i].n_pending != 1 || most_nodes(loads[i], limits) < depth) continue;
      plan.sequences[i].k = depth;
      --nodes;
      grew = true;
    }
    if (!grew) return;
  }
}

}  // namespace

void plan_step(std::span<const SequenceLoad> loads, const StepLimits& limits, Plan& plan) {
  const auto n = static_cast<std::int32_t>(loads.size());
  SLIP_CHECK(limits.max_rows > n && limits.max_logit_rows > n, "the pass is too small for a row a sequence");
  plan.sequences.assign(loads.size(), {});
  Budget budget{limits.max_rows, limits.max_logit_rows, limits.prefill_chunk};
  plan_decoding(loads, budget, plan);
  plan_prompts(loads, limits, budget, plan);
  plan_proposals(loads, limits, budget, plan);
}

std::int32_t slots_for_step(std::int32_t n_tokens, std::int32_t most_tokens) {
  return std::min(n_tokens + kMaxProposalNodes, most_tokens);
}

std::int32_t slots_to_start(std::int32_t n_tokens, std::int32_t most_tokens, bool score_prompt) {
  return score_prompt ? most_tokens : std::min(n_tokens + kAnswerRoom, most_tokens);
}

void pick_admissible(std::span<const WaitingNeed> waiting, std::int32_t free_pages, std::int32_t free_sequences,
                     std::vector<std::size_t>& picked) {
  picked.clear();
  std::int32_t may_pass = kMostPassed;  // those skipped so far
  bool skipped = false;
  for (std::size_t i = 0; i < waiting.size() && free_sequences > 0 && may_pass > 0; ++i) {
    if (waiting[i].pages > free_pages) {
      skipped = true;
      may_pass = std::min(may_pass, kMostPassed - waiting[i].n_passed);
      continue;
    }
    picked.push_back(i);
    free_pages -= waiting[i].pages;
    --free_sequences;
    if (skipped) --may_pass;
  }
}

}  // namespace slip
