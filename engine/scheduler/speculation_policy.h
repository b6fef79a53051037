// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/scheduler/deadlines.h"
#include "engine/scheduler/draft_length.h"
#include "engine/scheduler/policy_kind.h"
#include "engine/scheduler/select.h"
#include "engine/speculative/proposer.h"

namespace slip {

// A policy's decision for one decoding sequence before the drafts run.
struct DraftOrder {
  DraftLength length;              // expected
  std::int32_t most = 0;           // tokens of its chain; more than `length` where `stop` may let it grow
  std::int32_t width = 1;          // choices of its draft for one place
  StopRule stop;                   // of its draft
  bool wants_probability = false;  // of the proposal's nodes: path_logprob is used
  double saved_us = 0;             // what drafting for it is expected to save
};

struct PolicyOptions {
  std::int32_t tree_width = 1;  // most choices for one place
  bool stop_early = false;      // as in EngineOptions
};

// Shares the rows of each step among the running sequences, in two decisions: what the drafts propose, and which of the
// proposed nodes the target verifies. No decision changes an answer: the outlooks of a sampled proposal do not depend
// on the tokens that a decision is about. Threads: one owner.
class SpeculationPolicy {
 public:
  virtual ~SpeculationPolicy() = default;
  // Whether it lets sequences propose at all. If not, no sequence begins a draft, and every order is empty.
  virtual bool speculates() const { return true; }
  // Limits the next step for the sake of targets. The step reads at most `most_rows` rows of prompts. `loads`: all
  // running sequences, in the engine's order; empty: none has a target.
  virtual void limit_step(std::span<const DeadlineLoad> loads, const StepForecast& forecast, const StepCurve& curve,
                          std::int32_t most_rows, DeadlineLimits& limits);
  // Fills an order for each outlook. The step also reads `prompt_rows` rows of prompts.
  virtual void choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                      std::vector<DraftOrder>& orders) = 0;
  // Whether select() decides about chains too, not only about what branches off them.
  virtual bool selects_chains() const { return false; }
  // Adds a step: its drafting and its pass took `us` µs.
  virtual void add_step(double /*us*/) {}
  // Removes the nodes that the target does not verify. `nodes`: the likeliest first, each after its parent and its
  // earlier siblings; those of chains only if it selects them. `rows`: of the pass without these nodes; `room`: for how
  // many of them it has room.
  virtual void select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) = 0;
};

std::unique_ptr<SpeculationPolicy> make_policy(PolicyKind kind, PolicyOptions options);
// Every sequence drafts as much as it may.
std::unique_ptr<SpeculationPolicy> make_fixed_policy(PolicyOptions options);

}  // namespace slip
