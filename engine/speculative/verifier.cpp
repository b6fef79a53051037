// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/verifier.h"

#include <functional>
#include <new>

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

// Logits of all proposals together; fewer are verified in the time that another thread takes to begin.
constexpr std::size_t kLogitsWorthThreads = 32768;

// Whether its verification may run on any thread. The masks of grammars are one thread's.
bool on_any_thread(const ScoreTask& task) {
  return task.sequence != nullptr && task.proposal != nullptr && task.sequence->grammar == nullptr;
}

}  // namespace

Verifier::Verifier(Worker& worker, kernels::ThreadPool* pool)
    : worker_(worker),
      pool_(pool),
      logits_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(worker.max_logit_rows()) *
                                                      static_cast<std::size_t>(worker.config().vocab_size))) {}

void Verifier::score(std::span<const ScoreTask> tasks) {
  tasks_ = tasks;
  rows_.clear();
  first_logit_row_.clear();
  for (const ScoreTask& task : tasks) {
    first_logit_row_.push_back(rows_.add(SequenceRows{task, task.proposal, wanted_of(task)}));
  }
  for (EarlyResult& early : early_) {
    early.verified = false;
    early.observed.clear();
  }
  run(rows_.step());
}

void Verifier::run(const StepInput& input) {
  StepOutput output;
  output.logits = TensorView::contiguous(logits_.get(), {std::ssize(input.logit_rows), worker_.config().vocab_size});
  worker_.run(input, output);
  if (pool_ != nullptr && pool_->n_used() > 1) verify_together();
}

void Verifier::verify_together() {
  try {
    choose_together();
  } catch (const std::bad_alloc&) {
    return;  // they are verified one by one
  }
  std::size_t n_rows = 0;
  for (const std::size_t index : together_) n_rows += 1 + n_nodes(tasks_[index]);
  const std::size_t n_logits = n_rows * static_cast<std::size_t>(worker_.config().vocab_size);
  if (together_.size() < 2 || n_logits < kLogitsWorthThreads) return;
  const auto make = [&](std::size_t at, int) { make_early(together_[at], early_[together_[at]]); };
  pool_->parallel_for(together_.size(), std::cref(make));
}

void Verifier::choose_together() {
  together_.clear();
  if (early_.size() < tasks_.size()) early_.resize(tasks_.size());
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (on_any_thread(tasks_[i])) together_.push_back(i);
  }
}

// Observes the rows of the accepted path, whose tokens are committed. observed() tries again what fails here.
void Verifier::make_early(std::size_t index, EarlyResult& early) noexcept {
  early.verified = true;
  early.failure = nullptr;
  try {
    accept_proposal(index, early.result, early.scratch);
  } catch (...) {
    early.failure = std::current_exception();
    return;
  }
  const std::int32_t top_k = tasks_[index].top_k;
  if (top_k == 0) return;
  try {
    early.observed.push_back({0, observe_row(logits(index, 0), top_k)});
    for (const std::int32_t node : early.result.accepted) {
      early.observed.push_back({node + 1, observe_row(logits(index, node + 1), top_k)});
    }
  } catch (...) {
    return;
  }
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

bool Verifier::verifies_on_device(const SamplingParams& /*sampling*/) const {
  return false;
}

void Verifier::verify(std::size_t index, VerifyResult& result) {
  SLIP_CHECK(tasks_[index].sequence != nullptr && tasks_[index].proposal != nullptr,
             "a verification is asked for before the pass");
  if (index >= early_.size() || !early_[index].verified) return accept_proposal(index, result, scratch_);
  EarlyResult& early = early_[index];
  early.verified = false;
  if (early.failure) std::rethrow_exception(std::exchange(early.failure, nullptr));
  std::swap(result, early.result);
}

void Verifier::accept_proposal(std::size_t index, VerifyResult& result, Scratch& scratch) const {
  const ScoreTask& task = tasks_[index];
  const SequenceRef& sequence = *task.sequence;
  // Called lazily: rows behind a rejected token are never transformed.
  const auto p_after = [&](std::int32_t node) -> const Distribution& {
    const RowContext context = context_after(sequence, *task.proposal, node, scratch.path);
    transform_logits(logits(index, node + 1), *sequence.sampling, context, scratch.p);
    return scratch.p;
  };
  accept(*task.proposal, std::cref(p_after), sequence.rule, sequence.next_address(), result);
}

TopK Verifier::observed(std::size_t task, std::int32_t row) {
  if (task < early_.size()) {
    for (ObservedRow& one : early_[task].observed) {
      if (one.row == row && !one.top.ids.empty()) return std::exchange(one.top, {});
    }
  }
  return observe_row(logits(task, row), tasks_[task].top_k);
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
