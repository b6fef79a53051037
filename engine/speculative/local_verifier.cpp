// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/local_verifier.h"

#include <functional>
#include <new>
#include <utility>

#include "engine/speculative/proposer.h"

namespace slip {
namespace {

// Logits of all proposals together; fewer are verified in the time that another thread takes to begin.
constexpr std::size_t kLogitsWorthThreads = 32768;

// Whether its verification may run on any thread. The masks of grammars are one thread's.
bool on_any_thread(const ScoreTask& task) {
  return task.sequence != nullptr && task.proposal != nullptr && task.sequence->grammar == nullptr;
}

}  // namespace

void LocalVerifier::score(std::span<const ScoreTask> tasks) {
  const StepInput input = lay_out(tasks);
  for (EarlyResult& early : early_) {
    early.verified = false;
    early.observed.clear();
  }
  StepOutput output;
  output.logits = TensorView::contiguous(host_row(0), {std::ssize(input.logit_rows), worker().config().vocab_size});
  worker().run(input, output);
  if (pool_ != nullptr && pool_->n_used() > 1) verify_together();
}

void LocalVerifier::verify_together() {
  try {
    choose_together();
  } catch (const std::bad_alloc&) {
    return;  // they are verified one by one
  }
  std::size_t n_rows = 0;
  for (const std::size_t index : together_) n_rows += 1 + task(index).proposal->size();
  const std::size_t n_logits = n_rows * static_cast<std::size_t>(worker().config().vocab_size);
  if (together_.size() < 2 || n_logits < kLogitsWorthThreads) return;
  const auto make = [&](std::size_t at, int) { make_early(together_[at], early_[together_[at]]); };
  pool_->parallel_for(together_.size(), std::cref(make));
}

void LocalVerifier::choose_together() {
  together_.clear();
  if (early_.size() < n_tasks()) early_.resize(n_tasks());
  for (std::size_t i = 0; i < n_tasks(); ++i) {
    if (on_any_thread(task(i))) together_.push_back(i);
  }
}

// Observes the rows of the accepted path, whose tokens are committed. observed() tries again what fails here.
void LocalVerifier::make_early(std::size_t index, EarlyResult& early) const noexcept {
  early.verified = true;
  early.failure = nullptr;
  try {
    verify_on_host(index, early.result, early.scratch);
  } catch (...) {
    early.failure = std::current_exception();
    return;
  }
  if (task(index).top_k == 0) return;
  try {
    early.observed.push_back({0, observe_on_host(index, 0)});
    for (const std::int32_t node : early.result.accepted) {
      early.observed.push_back({node + 1, observe_on_host(index, node + 1)});
    }
  } catch (...) {
    return;
  }
}

void LocalVerifier::verify(std::size_t index, VerifyResult& result) {
  if (index >= early_.size() || !early_[index].verified) return verify_on_host(index, result, scratch_);
  EarlyResult& early = early_[index];
  early.verified = false;
  if (early.failure) std::rethrow_exception(std::exchange(early.failure, nullptr));
  std::swap(result, early.result);
}

TopK LocalVerifier::observed(std::size_t index, std::int32_t row) {
  if (index < early_.size()) {
    for (ObservedRow& one : early_[index].observed) {
      if (one.row == row && !one.top.ids.empty()) return std::exchange(one.top, {});
    }
  }
  return observe_on_host(index, row);
}

}  // namespace slip
