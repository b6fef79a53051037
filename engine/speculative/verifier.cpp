// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/verifier.h"

#include <functional>

#include "common/error.h"
#include "engine/speculative/acceptance.h"
#include "engine/speculative/observe.h"
#include "engine/speculative/proposer.h"
#include "engine/speculative/token_path.h"

namespace slip {

namespace {

std::size_t n_nodes(const ScoreTask& task) {
  return task.proposal == nullptr ? 0 : task.proposal->size();
}

WantedLogits wanted_of(const ScoreTask& task) {
  if (task.wants_all_logits) return WantedLogits::kAll;
  return task.wants_logits ? WantedLogits::kFromLast : WantedLogits::kNone;
}

}  // namespace

Verifier::Verifier(Worker& worker)
    : worker_(worker),
      logits_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(worker.max_logit_rows()) *
                                                      static_cast<std::size_t>(worker.config().vocab_size))) {}

StepInput Verifier::lay_out(std::span<const ScoreTask> tasks) {
  tasks_ = tasks;
  rows_.clear();
  first_logit_row_.clear();
  for (const ScoreTask& task : tasks) {
    first_logit_row_.push_back(rows_.add(SequenceRows{task, task.proposal, wanted_of(task)}));
  }
  return rows_.step();
}

Verifier::LogitRows Verifier::logit_rows(std::size_t index) const {
  const ScoreTask& task = tasks_[index];
  const std::int32_t row = first_logit_row_[index];
  if (wanted_of(task) == WantedLogits::kNone) return {row, row};
  const auto n_before = task.wants_all_logits ? static_cast<std::int32_t>(task.tokens.size()) - 1 : 0;
  return {row - n_before, row + 1 + static_cast<std::int32_t>(n_nodes(task))};
}

float* Verifier::host_row(std::int32_t logit_row) const {
  return logits_.get() + static_cast<std::size_t>(logit_row) * static_cast<std::size_t>(worker_.config().vocab_size);
}

std::span<const float> Verifier::logits(std::size_t task, std::int32_t row) const {
  return {host_row(first_logit_row_[task] + row), static_cast<std::size_t>(worker_.config().vocab_size)};
}

void Verifier::verify_on_host(std::size_t index, VerifyResult& result, Scratch& scratch) const {
  const ScoreTask& task = tasks_[index];
  SLIP_CHECK(task.sequence != nullptr && task.proposal != nullptr, "a verification is asked for before the pass");
  const SequenceRef& sequence = *task.sequence;
  // Called lazily: rows after a rejected token are never transformed.
  const auto p_after = [&](std::int32_t node) -> const Distribution& {
    const RowContext context = context_after(sequence, *task.proposal, node, scratch.path);
    transform_logits(logits(index, node + 1), *sequence.sampling, context, scratch.p);
    return scratch.p;
  };
  accept(*task.proposal, std::cref(p_after), sequence.rule, sequence.next_address(), result);
}

TopK Verifier::observe_on_host(std::size_t index, std::int32_t row) const {
  return observe_row(logits(index, row), tasks_[index].top_k);
}

void Verifier::keep_path(const ScoreTask& task, std::span<const std::int32_t> accepted) {
  constexpr std::int32_t kPage = PagePool::kPageTokens;
  const std::int32_t base = task.n_cached + static_cast<std::int32_t>(task.tokens.size());
  // accepted[i] ≥ i, so moving in order never overwrites a slot that is still to be moved.
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const std::int32_t from = base + accepted[i], to = base + static_cast<std::int32_t>(i);
    if (from == to) continue;
    worker_.cache().copy_slot(task.pages->pages()[from / kPage], from % kPage, task.pages->pages()[to / kPage],
                              to % kPage);
  }
}

}  // namespace slip
